/* SPDX-License-Identifier: MIT
 * node.c - stages of a graph: added to it, and their live parameters. */
#include "graph/model.h"

#include <spcore/rng.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sp_node_free(sp_node *n) {
  sp_cache_free(n);
  sp_weights_free(&n->params);
  for (unsigned i = 0; n->in && i < n->n_in; i++) free(n->in[i].v);
  free(n->in);
  for (unsigned i = 0; n->in_specs && i < n->n_in; i++) free(n->in_specs[i].spec);
  for (unsigned i = 0; n->out_specs && i < n->n_out; i++) free(n->out_specs[i].spec);
  free(n->in_specs);
  free(n->out_specs);
  for (size_t i = 0; i < n->n_attrs; i++) {
    free((char *)n->attrs[i].name);
    free((char *)n->attrs[i].text);
  }
  free(n->attrs);
  free(n->draw);
  sp_inst_free(n->inst);
  free(n->name);
  free(n);
}

static bool valid_name(const char *s) {
  size_t n = strlen(s);
  if (!n || n > 64 || !((s[0] >= 'a' && s[0] <= 'z') || (s[0] >= 'A' && s[0] <= 'Z') || s[0] == '_')) return false;
  return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

static char *free_name(const sp_graph *g, const char *stage) {
  char buf[96];
  snprintf(buf, sizeof buf, "%s", stage);
  for (int i = 2; sp_graph_find(g, buf); i++) snprintf(buf, sizeof buf, "%.60s_%d", stage, i);
  return sp_strdup(buf);
}

static int alloc_ports(sp_node *n, sp_err *err) {
  const sp_stage_type *t = n->inst->type;
  n->n_in = sp_ports_count(t->inputs);
  n->n_out = sp_ports_count(t->outputs);
  n->in = sp_calloc(n->n_in + 1, sizeof *n->in);
  n->in_specs = sp_calloc(n->n_in + 1, sizeof *n->in_specs);
  n->out_specs = sp_calloc(n->n_out + 1, sizeof *n->out_specs);
  if (!n->in || !n->in_specs || !n->out_specs) return sp_nomem(err, 0, "ports");
  for (unsigned i = 0; i < n->n_out; i++) {
    uint32_t cap = t->outputs[i].flags & SP_PORT_LIST ? SP_MAX_LIST : 1;
    n->out_specs[i].spec = sp_calloc(cap, sizeof(sp_spec));
    n->out_specs[i].cap = cap;
    if (!n->out_specs[i].spec) return sp_nomem(err, cap * sizeof(sp_spec), "ports");
  }
  return SP_OK;
}

/* The stage for the graph's device; where there is none, but one for the cpu, that one, behind copies: `placed`. */
static int find_stage(sp_graph *g, const char *stage, bool on_cpu, const sp_stage_type **type,
                      const sp_plugin_file **file, bool *placed, sp_err *err) {
  sp_err cpu;
  int st = sp_registry_stage(g->env->reg, stage, on_cpu ? "cpu" : g->stages, type, file, err);
  *placed = g->border && on_cpu;
  if (!g->border) return st;
  if (!st && sp_graph_plays_gpu(g)) *placed = on_cpu || (*type)->flags & SP_STAGE_SOURCE;
  if (st != SP_E_NOTFOUND || on_cpu) return st;
  *placed = true;
  return sp_registry_stage(g->env->reg, stage, "cpu", type, file, &cpu) ? st : SP_OK;
}

int sp_graph_stage_type(sp_graph *g, const char *stage, bool on_cpu, const sp_stage_type **type, sp_err *err) {
  const sp_plugin_file *file;
  bool placed;
  return find_stage(g, stage, on_cpu, type, &file, &placed, err);
}

static int check_source(const sp_node *n, uint32_t flags, sp_err *err) {
  const sp_node_opts *o = &n->opts;
  long long batch = (long long)o->batch;
  bool requests = flags & SP_STAGE_REQUESTS;
  if (requests && (o->no_shuffle || o->drop_last))
    return sp_fail(err, SP_E_INVALID,
                   "stage '%s': requests come in their own order: it takes no 'shuffle', no 'drop_last'", n->name);
  if (!requests && (o->queue || o->queue_bytes || o->wait_us || o->deadline_us))
    return sp_fail(err, SP_E_INVALID,
                   "stage '%s' reads no requests, so it takes no 'queue', 'queue_mb', 'wait_us' or 'deadline_us'",
                   n->name);
  if (n->source && batch == 0)
    return sp_fail(err, SP_E_RANGE, "stage '%s': batch is required: how many samples a step takes, such as batch = 16",
                   n->name);
  if (n->source && batch < 1)
    return sp_fail(err, SP_E_RANGE, "stage '%s': batch %lld: at least 1 is wanted", n->name, batch);
  if (batch > 1 << 20) return sp_fail(err, SP_E_RANGE, "stage '%s': batch %lld is above 1048576", n->name, batch);
  return SP_OK;
}

/* A source of requests has its queue before it is made: its create() may ask for it. */
static int make_queue(sp_node *n, sp_err *err) {
  sp_graph *g = n->g;
  const sp_node_opts *o = &n->opts;
  int64_t four = 4 * o->batch;
  sp_queue_opts q = {.batch = (uint32_t)o->batch,
                     .capacity = o->queue ? o->queue : (uint32_t)(four > 256 ? four : 256),
                     .bytes = o->queue_bytes ? o->queue_bytes : (size_t)1 << 30,
                     .wait_us = o->wait_us,
                     .deadline_us = o->deadline_us};
  if (g->queue)
    return sp_fail(err, SP_E_INVALID, "stage '%s': the graph reads requests already; one source of them is possible",
                   n->name);
  if (q.capacity < q.batch)
    return sp_fail(err, SP_E_RANGE, "stage '%s': a queue of %u requests never fills a batch of %u", n->name, q.capacity,
                   q.batch);
  int st = sp_queue_new(&g->queue, &q, err);
  g->host.queue = g->cpu_host.queue = g->queue;
  return st;
}

/* One of its own where that is another than the graph's. */
static int settle_precision(sp_node *n, sp_err *err) {
  int precision = n->opts.precision - 1;
  bool whole = n->on_cpu || !strcmp(n->g->stages, "cpu");
  n->precision = n->g->precision;
  if (whole) n->precision.precision = SP_PRECISION_FP32;
  if (precision < 0 || precision == n->precision.precision) return SP_OK;
  n->precision.precision = precision;
  if (!whole) return SP_OK;
  sp_fail(err, SP_E_INVALID, "precision: device '%s' computes in fp32 only", n->on_cpu ? "cpu" : n->g->device);
  return sp_prefix(err, "stage '%s'", n->name);
}

static void drop_queue(sp_graph *g) {
  sp_queue_free(g->queue);
  g->queue = g->host.queue = g->cpu_host.queue = NULL;
}

static int check_name(const sp_graph *g, const char *name, sp_err *err) {
  if (!valid_name(name))
    return sp_fail(err, SP_E_INVALID, "name '%s': letters, digits and _ are wanted, at most 64", name);
  if (sp_graph_find(g, name))
    return sp_fail(err, SP_E_INVALID, "name '%s' is taken by another stage of this graph", name);
  return SP_OK;
}

/* As its type and the options say; without an instance. */
static sp_node *new_node(sp_graph *g, const char *stage, const sp_stage_type *type, const sp_node_opts *opts,
                         bool on_cpu) {
  sp_node *n = sp_calloc(1, sizeof *n);
  if (!n) return NULL;
  n->g = g;
  n->index = g->n_nodes;
  if (opts) n->opts = *opts;
  n->opts.name = NULL;
  n->frozen = n->opts.frozen;
  n->on_cpu = on_cpu;
  n->name = opts && opts->name ? sp_strdup(opts->name) : free_name(g, stage);
  n->source = type->flags & SP_STAGE_SOURCE;
  n->optimizer = type->flags & SP_STAGE_OPTIMIZER;
  n->loss = type->flags & SP_STAGE_LOSS;
  n->shards = type->flags & SP_STAGE_SHARDS;
  n->params = (sp_weights){.store = &g->store,
                           .name = n->name,
                           .place = sp_node_place(n),
                           .index = n->index,
                           .optimizer = n->optimizer,
                           .keeps_statistics = !n->source && !n->optimizer && !n->frozen};
  if (n->name) return n;
  sp_node_free(n);
  return NULL;
}

/* Its instance, and what belongs to that. *queue: it has made one for the graph. */
static int make_instance(sp_node *n, const sp_stage_type *type, const sp_plugin_file *file, const sp_value *params,
                         bool *queue, sp_err *err) {
  sp_graph *g = n->g;
  const sp_stage_host *host = n->on_cpu ? &g->cpu_host : &g->host;
  bool requests = type->flags & SP_STAGE_REQUESTS;
  int st = requests ? check_source(n, type->flags, err) : SP_OK;
  if (!st && requests) *queue = !(st = make_queue(n, err));
  if (!st) st = settle_precision(n, err);
  if (!st) st = sp_inst_new(&n->inst, host, n->name, type, file, params, &n->precision, err);
  if (!st) st = alloc_ports(n, err);
  if (!st) st = sp_cache_new(n, err);
  return st ? st : check_source(n, type->flags, err);
}

int sp_graph_add_own(sp_graph *g, const char *stage, const sp_value *params, const sp_node_opts *opts, sp_node **out,
                     sp_err *err) {
  const sp_stage_type *type;
  const sp_plugin_file *file;
  bool asked = opts && opts->on_cpu, on_cpu, queue = false;
  int st = SP_OK;
  *out = NULL;
  if (g->n_programs) return sp_fail(err, SP_E_STATE, "stage '%s': the graph has run already; add stages before", stage);
  if (opts && opts->name) st = check_name(g, opts->name, err);
  if (st || (st = find_stage(g, stage, asked, &type, &file, &on_cpu, err))) return st;
  if (on_cpu && !asked && !(type->flags & SP_STAGE_SOURCE))
    sp_log(SP_LOG_WARN, "stage '%s' exists for the cpu only: it runs there, behind copies", stage);
  if (!sp_grow(&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof *g->nodes)) return sp_nomem(err, 64, "a stage");
  sp_node *n = new_node(g, stage, type, opts, on_cpu);
  if (!n) return sp_nomem(err, sizeof *n, "a stage");
  st = make_instance(n, type, file, params, &queue, err);
  if (!st) st = sp_store_add(&g->store, &n->params, err);
  if (st) {
    sp_node_free(n);
    if (queue) drop_queue(g); /* behind the instance, which may have it */
    return st;
  }
  n->key = sp_rng_key(g->opts.seed, n->name);
  n->n_live = sp_params_live(type->params, n->inst->params.data, n->live);
  g->nodes[g->n_nodes++] = n;
  g->planned = false;
  *out = n;
  return SP_OK;
}

int sp_graph_add(sp_graph *g, const char *stage, const sp_value *params, const sp_node_opts *opts, sp_node **out,
                 sp_err *err) {
  const sp_stage_type *type;
  int st = sp_graph_stage_type(g, stage, opts && opts->on_cpu, &type, err);
  *out = NULL;
  if (!st && type->flags & SP_STAGE_SHARDS)
    st = sp_fail(err, SP_E_INVALID, "stage '%s' is added by the graph itself, where a step has shards or a cache",
                 stage);
  return st ? st : sp_graph_add_own(g, stage, params, opts, out, err);
}

/* ---- live parameters ---- */
int sp_node_set_live(sp_node *n, const char *param, double value, sp_err *err) {
  const sp_param *p = NULL;
  int i = sp_params_find_live(n->inst->type->params, param, &p);
  if (i < 0)
    return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no parameter '%s' that may change while running", n->name,
                   param);
  if (isnan(value) || ((p->min != 0 || p->max != 0) && (value < p->min || value > p->max)))
    return sp_fail(err, SP_E_RANGE, "stage '%s': parameter '%s': %g is outside %g..%g", n->name, param, value, p->min,
                   p->max);
  /* A stage ahead of the trained part, or behind it, is at another step in another strategy: the same script would give
   * other bits there. So is a loss that is only watched. */
  if (n->g->n_programs && !n->flow.backward && !n->optimizer && !sp_node_trained_on(n))
    return sp_fail(err, SP_E_STATE,
                   "stage '%s': parameter '%s' may change before the first step only: the stage may run "
                   "ahead of the trained part or behind it",
                   n->name, param);
  n->live[i] = (float)value;
  return SP_OK;
}

int sp_node_get_live(const sp_node *n, const char *param, double *value, sp_err *err) {
  int i = sp_params_find_live(n->inst->type->params, param, NULL);
  if (i < 0)
    return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no parameter '%s' that may change while running", n->name,
                   param);
  *value = n->live[i];
  return SP_OK;
}
