/* SPDX-License-Identifier: MIT
 * plan.c - one stage is planned: what it says of outputs, weights and memory for what comes in. */
#include "graph/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int keep_attrs(sp_node *n, const sp_plan *p, sp_err *err) {
  for (size_t i = 0; i < n->n_attrs; i++) {
    free((char *)n->attrs[i].name);
    free((char *)n->attrs[i].text);
  }
  free(n->attrs);
  n->n_attrs = 0;
  n->attrs = sp_calloc(p->n_attrs + 1, sizeof *n->attrs);
  if (!n->attrs) return sp_nomem(err, 0, "attributes");
  for (uint32_t i = 0; i < p->n_attrs; i++) {
    n->attrs[i] = p->attrs[i];
    n->attrs[i].name = sp_strdup(p->attrs[i].name);
    n->attrs[i].text = p->attrs[i].text ? sp_strdup(p->attrs[i].text) : NULL;
    n->n_attrs = i + 1;
    if (!n->attrs[i].name || (p->attrs[i].text && !n->attrs[i].text)) return sp_nomem(err, 64, "an attribute");
  }
  return SP_OK;
}

/* "; wired: encoder.features float32[8,64,8,8] -> features, ..." */
static void put_edges(const sp_node *n, sp_err *err) {
  sp_sb sb = {0};
  char spec[128];
  for (unsigned i = 0; i < n->n_in; i++)
    for (size_t k = 0; k < n->in[i].n; k++) {
      sp_ref r = n->in[i].v[k];
      sp_sb_putf(&sb, "%s%s.%s %s -> %s", sb.n ? ", " : "", r.node->name,
                 sp_node_out_port(r.node, (unsigned)r.port)->name,
                 sp_spec_str(&n->in_specs[i].spec[k], spec, sizeof spec), sp_node_in_port(n, i)->name);
    }
  if (sb.n) {
    size_t len = strlen(err->msg);
    snprintf(err->msg + len, sizeof err->msg - len, " (wired: %s)", sp_sb_str(&sb));
  }
  sp_sb_free(&sb);
}

/* N: the source's own; that of the first input that comes from one; else what the first input has. */
static int64_t find_batch(sp_node *n) {
  int64_t any = 0;
  n->batched = n->source;
  if (n->source) return n->opts.batch;
  for (unsigned i = 0; i < n->n_in; i++)
    for (size_t k = 0; k < n->in[i].n && k < n->in_specs[i].n; k++) {
      sp_ref r = n->in[i].v[k];
      const sp_spec *s = &n->in_specs[i].spec[k];
      if (!any && s->ndim) any = s->shape[0];
      if (!sp_node_batch_out(r.node, r.port, s)) continue;
      n->batched = true;
      return s->shape[0];
    }
  return any ? any : n->opts.batch > 0 ? n->opts.batch : 1;
}

/* A request has a sample of each output, or what the stage makes it of. */
static int open_queue(const sp_node *n, uint64_t most, sp_err *err) {
  size_t bytes[SP_QUEUE_MAX_PARTS], k = 0;
  for (unsigned o = 0; o < n->n_out; o++)
    for (uint32_t i = 0; i < n->out_specs[o].n; i++, k++) {
      sp_spec one = sp_spec_sample(&n->out_specs[o].spec[i]);
      if (one.ndim < 0 || k == SP_QUEUE_MAX_PARTS)
        return sp_fail(err, SP_E_SHAPE, "stage '%s': output '%s' is not made of samples, or there are more than %d",
                       n->name, sp_node_out_port(n, o)->name, SP_QUEUE_MAX_PARTS);
      bytes[k] = (size_t)sp_spec_bytes(&one);
    }
  int st = sp_queue_open(n->g->queue, bytes, k, most, err);
  return st ? sp_prefix(err, "stage '%s'", n->name) : SP_OK;
}

int sp_node_ask_plan(sp_node *n, sp_plan *p, sp_err *err) {
  p->size = sizeof *p;
  p->n_in = n->n_in;
  p->n_out = n->n_out;
  p->frozen = n->frozen || (!n->g->train.on && !p->training);
  p->batch = n->opts.batch = find_batch(n);
  for (unsigned i = 0; i < n->n_out; i++) {
    n->out_specs[i].n = sp_node_out_port(n, i)->flags & SP_PORT_LIST ? 0 : 1;
    memset(n->out_specs[i].spec, 0, n->out_specs[i].cap * sizeof(sp_spec));
  }
  if (n->optimizer) sp_groups_put(&n->g->train.groups, p);
  p->in = n->in_specs;
  p->out = n->out_specs;
  int st = sp_inst_plan(n->inst, p, err);
  if (st) put_edges(n, err);
  return st;
}

static int keep_draws(sp_node *n, const sp_plan *p, sp_err *err) {
  free(n->draw);
  n->draw = NULL;
  if (!p->draw) return SP_OK;
  n->draw = sp_calloc(p->length, sizeof *n->draw);
  if (!n->draw) return sp_nomem(err, p->length * sizeof *n->draw, "how often samples are drawn");
  memcpy(n->draw, p->draw, p->length * sizeof *n->draw);
  return SP_OK;
}

static int check_recompute(const sp_node *n, const sp_plan *p, sp_err *err) {
  if (!n->opts.recompute) return SP_OK;
  if (n->source || n->optimizer || !n->inst->type->backward)
    return sp_fail(err, SP_E_INVALID, "stage '%s': recompute: it has no backward; leave it out", n->name);
  for (uint32_t i = 0; i < p->n_weights && !p->repeats; i++)
    if (p->weights[i].flags & SP_WEIGHT_STATE)
      return sp_fail(err, SP_E_UNSUPPORTED,
                     "stage '%s': recompute: its forward may read '%s', which changes in each step; leave it out",
                     n->name, p->weights[i].name);
  return SP_OK;
}

int sp_node_replan(sp_node *n, bool training, sp_err *err) {
  sp_plan p = {.training = training};
  int st;
  if (training && n->params.trained) {
    bool again = n->opts.recompute; /* once, and as a whole */
    p.max_parts = again ? 1 : (uint32_t)n->g->opts.parts;
    if (!p.max_parts && n->g->shards.tree) p.max_parts = SP_PARTS_MAX, p.part_bytes = n->g->opts.bucket;
    /* What apply() makes is wanted of all weights, or of none. */
    bool factors = n->g->shards.on && !n->g->opts.no_factors && !again && !sp_weights_any_fixed(&n->params);
    p.shards = factors ? (uint32_t)n->g->opts.shards : 0;
  }
  if ((st = sp_node_ask_plan(n, &p, err)) || (st = check_recompute(n, &p, err))) return st;
  n->scratch = p.scratch_bytes;
  n->saved = p.saved_bytes;
  n->n_parts = p.n_parts;
  n->length = p.length;
  n->stepless = p.stepless;
  if (n->inst->type->flags & SP_STAGE_REQUESTS && (st = open_queue(n, p.request_max, err))) return st;
  if ((st = sp_weights_keep(&n->params, &p, err)) || (st = keep_attrs(n, &p, err)) || (st = keep_draws(n, &p, err)))
    return st;
  n->planned = true;
  return SP_OK;
}

int sp_node_take_inputs(sp_node *n, sp_err *err) {
  for (unsigned i = 0; i < n->n_in; i++) {
    const sp_port *p = sp_node_in_port(n, i);
    sp_speclist *s = &n->in_specs[i];
    if (!n->in[i].n && !(p->flags & (SP_PORT_OPTIONAL | SP_PORT_LIST)))
      return sp_fail(err, SP_E_INVALID, "stage '%s': input port '%s' is not connected (%s)", n->name, p->name, p->doc);
    free(s->spec);
    *s = (sp_speclist){.spec = sp_calloc(n->in[i].n + 1, sizeof *s->spec)};
    if (!s->spec) return sp_nomem(err, 0, "ports");
    for (size_t k = 0; k < n->in[i].n; k++) {
      sp_ref r = n->in[i].v[k];
      const sp_speclist *from = &r.node->out_specs[r.port];
      if (!r.node->planned)
        return sp_fail(err, SP_E_STATE, "stage '%s': its input comes from '%s', whose inputs are not connected",
                       n->name, r.node->name);
      if ((uint32_t)r.index >= from->n)
        return sp_fail(err, SP_E_RANGE, "stage '%s': '%s.%s' has %u tensors; there is no number %d", n->name,
                       r.node->name, sp_node_out_port(r.node, (unsigned)r.port)->name, from->n, r.index + 1);
      s->spec[k] = from->spec[r.index];
      s->n = s->cap = (uint32_t)k + 1;
    }
  }
  return SP_OK;
}

int sp_graph_plan(sp_graph *g, sp_node *n, sp_err *err) {
  int st;
  (void)g;
  if (sp_node_apart(n)) return SP_OK;
  n->planned = false;
  return (st = sp_node_take_inputs(n, err)) ? st : sp_node_replan(n, false, err);
}
