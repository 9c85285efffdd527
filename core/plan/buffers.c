/* SPDX-License-Identifier: MIT
 * buffers.c - the resources of a program: what the calls of a stage read, write and keep to themselves. */
#include "plan/planner.h"

#include <stdlib.h>

int sp_planner_buf(sp_planner *w, char *name, size_t bytes, sp_buf_kind kind, int slots, int group, int *out,
                   sp_err *err) {
  sp_program *p = w->p;
  if (!name || !sp_grow(&p->bufs, &w->cap_bufs, p->n_bufs + 1, sizeof *p->bufs)) {
    free(name);
    return sp_nomem(err, 64, "a resource");
  }
  p->bufs[p->n_bufs] = (sp_buf){.name = name, .bytes = bytes, .kind = kind, .slots = slots, .group = group, .pack = -1};
  *out = (int)p->n_bufs++;
  return SP_OK;
}

/* No memory: a turn that calls take. */
static int add_turn(sp_planner *w, char *name, int *out, sp_err *err) {
  return sp_planner_buf(w, name, 0, 0, 1, 0, out, err);
}

static char *tensor_name(const sp_node *n, int port, uint32_t k, const char *prefix) {
  const sp_port *po = sp_node_out_port(n, (unsigned)port);
  return po->flags & SP_PORT_LIST ? sp_text("%s%s.%s[%u]", prefix, n->name, po->name, k + 1)
                                  : sp_text("%s%s.%s", prefix, n->name, po->name);
}

/* ---- outputs and their gradients ---- */
static bool is_wanted(const sp_planner *w, sp_node *n, unsigned o, uint32_t k) {
  const sp_program *p = w->p;
  const sp_port *port = sp_node_out_port(n, o);
  sp_node *wired = n == p->stand_in ? p->g->train.source : n; /* wires name the one it stands in for */
  bool shown = sp_port_small(port);
  bool spare = port->flags & SP_PORT_OPTIONAL || !sp_program_calls(p, n);
  return shown || !spare || sp_ref_is_read(p->g, (sp_ref){wired, (int)o, (int)k}, p->fills);
}

static int output_buffer(sp_planner *w, sp_node *n, unsigned o, uint32_t k, sp_err *err) {
  sp_program *p = w->p;
  size_t bytes = (size_t)sp_spec_bytes(&n->out_specs[o].spec[k]);
  int group = sp_port_small(sp_node_out_port(n, o)) ? 0 : 1 + (int)n->index * 2, r;
  int st = sp_planner_buf(w, tensor_name(n, (int)o, k, ""), bytes, SP_BUF_ACTIVATION, 0, group, &r, err);
  if (st) return st;
  w->act[n->index][sp_node_flat(n, (int)o, (int)k)] = r;
  p->bufs[r].at = n->source && !p->g->border ? SP_AT_PINNED : n->on_cpu ? SP_AT_CPU : SP_AT_MAIN;
  /* written by every k-th step, looked at behind each: no step may find another's place */
  p->bufs[r].ring = n->optimizer && p->g->train.accumulate > 1 && !p->g->border;
  return SP_OK;
}

/* An output that nobody reads has none: the stage is given no memory for it. Nor has an optimizer's first, which is the
 * weights themselves. */
static int output_buffers(sp_planner *w, sp_node *n, sp_err *err) {
  int *act = w->act[n->index] = sp_calloc(sp_node_n_flat(n) + 1, sizeof *act);
  int *grad = w->grad[n->index] = sp_calloc(sp_node_n_flat(n) + 1, sizeof *grad);
  int st = act && grad ? SP_OK : sp_nomem(err, 64, "resources");
  for (size_t f = 0; !st && f < sp_node_n_flat(n); f++) act[f] = grad[f] = -1;
  for (unsigned o = n->optimizer ? 1 : 0; o < n->n_out && !st; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++)
      if (is_wanted(w, n, o, k)) st = output_buffer(w, n, o, k, err);
  return st;
}

int sp_planner_grad_buf(sp_planner *w, sp_ref r, int *out, sp_err *err) {
  sp_node *n = r.node;
  int *g = &w->grad[n->index][sp_node_flat(n, r.port, r.index)], st = SP_OK;
  if (*g < 0)
    st = sp_planner_buf(w, tensor_name(n, r.port, (uint32_t)r.index, "the gradient of "),
                        (size_t)sp_spec_bytes(&n->out_specs[r.port].spec[r.index]), SP_BUF_GRADIENT, 0, 0, g, err);
  *out = *g;
  return st;
}

/* ---- what a stage keeps ---- */
/* Memory of its own on the side of the border where the stage is. */
static int add_kept(sp_planner *w, const sp_node *n, char *name, size_t bytes, int slots, int *out, sp_err *err) {
  int st = sp_planner_buf(w, name, bytes, SP_BUF_SAVED, slots, 0, out, err);
  if (!st) w->p->bufs[*out].at = n->on_cpu ? SP_AT_CPU : SP_AT_MAIN;
  return st;
}

/* From its forward to its backward; or, of stages for shards, from one pass to the next. */
static int saved_buffer(sp_planner *w, const sp_node *n, sp_err *err) {
  const sp_program *p = w->p;
  int *out = &w->saved[n->index];
  if (n->saved && n->shards) return add_kept(w, n, sp_text("what '%s' keeps", n->name), n->saved, 1, out, err);
  if (!n->saved || !p->training || !n->flow.backward || sp_program_again(p, n)) return SP_OK;
  return add_kept(w, n, sp_text("%s's saved values", n->name), n->saved, 0, out, err);
}

/* Scratch that is kept from one part of a backward to the next. */
static int carry_buffer(sp_planner *w, const sp_node *n, sp_err *err) {
  if (!w->p->training || n->n_parts < 2) return SP_OK;
  return add_kept(w, n, sp_text("the scratch memory of '%s'", n->name), n->scratch, 1, &w->carry[n->index], err);
}

/* The totals of a step's shards, and what they come to, stay from one pass to the next. */
static void keep_totals(sp_planner *w, const sp_node *n) {
  if (n != w->p->g->shards.count && n != w->p->g->shards.scale) return;
  sp_buf *b = &w->p->bufs[w->act[n->index][0]];
  b->slots = 1;
  b->group = 0;
}

/* ---- turns: what two calls must not touch at the same time ---- */
static char *part_name(const sp_node *n, const char *what, uint32_t part) {
  return n->n_parts > 1 ? sp_text("the %s of '%s', part %u", what, n->name, part)
                        : sp_text("the %s of '%s'", what, n->name);
}

/* One for each part of the node's backward, side by side, and of each another for weights of apply(), which leaves the
 * others alone; w->weight has the first. */
static int weight_turns(sp_planner *w, const sp_node *n, sp_err *err) {
  int st = SP_OK, r;
  for (uint32_t part = 0; part < n->n_parts && !st; part++) {
    if (!(st = add_turn(w, part_name(n, "weights", part), &r, err)) && !part) w->weight[n->index] = r;
    if (!st && n->params.n_factors) st = add_turn(w, part_name(n, "products' weights", part), &r, err);
  }
  return st;
}

int sp_planner_weight(const sp_planner *w, const sp_weights *stage, uint32_t part, bool product) {
  int each = stage->n_factors ? 2 : 1;
  if (w->weight[stage->index] < 0) return -1;
  return w->weight[stage->index] + each * (int)part + (each > 1 && product);
}

int sp_planner_touch_weight(const sp_planner *w, sp_task *t, const sp_weight_ref *r, int mode, sp_err *err) {
  const sp_weight *of = &r->of->weights[r->i];
  return sp_task_access(t, sp_planner_weight(w, r->of, of->part, of->flags & SP_WEIGHT_FACTORS), mode, err);
}

/* Which of the ranks' buckets it is sent in, from 1 on; 0: in none. */
static size_t bucket_of(sp_node *n, size_t i) {
  const sp_reduce *x = n->g->store.reduce;
  const sp_weight_ref r = {.of = &n->params, .i = i};
  for (size_t b = 0; x && b < x->n; b++)
    if (sp_bucket_has(&x->buckets[b], &r)) return b + 1;
  return 0;
}

static int gradient_turn(sp_planner *w, const sp_node *n, uint32_t part, size_t bucket, int *out, sp_err *err) {
  char *name = part_name(n, "weight gradients", part), *more;
  if (!name || !bucket) return add_turn(w, name, out, err);
  more = sp_text("%s, bucket %zu", name, bucket);
  free(name);
  return add_turn(w, more, out, err);
}

/* One for those of a part that are sent in one bucket, or in none: what is done with them waits for no other bucket. */
static int gradient_turns(sp_planner *w, sp_node *n, sp_err *err) {
  int *of = w->dweight[n->index] = sp_calloc(n->params.n_weights + 1, sizeof *of), st = SP_OK;
  size_t *bucket = sp_calloc(n->params.n_weights + 1, sizeof *bucket);
  if (!of || !bucket) st = sp_nomem(err, n->params.n_weights * sizeof *bucket, "resources");
  for (size_t i = 0; i < n->params.n_weights && !st; i++) {
    uint32_t part = n->params.weights[i].part;
    of[i] = -1;
    if (!sp_weights_has_dw(&n->params, i)) continue;
    bucket[i] = bucket_of(n, i);
    for (size_t k = 0; k < i && of[i] < 0; k++)
      if (n->params.weights[k].part == part && bucket[k] == bucket[i]) of[i] = of[k];
    if (of[i] < 0) st = gradient_turn(w, n, part, bucket[i], &of[i], err);
  }
  free(bucket);
  return st;
}

int sp_planner_factor(const sp_planner *w, const sp_node *n, size_t i, bool all) {
  bool several = w->comm_lane >= 0;
  return all && !several ? -1 : w->factor[n->index] + (int)i * (several ? 2 : 1) + all;
}

/* Likewise one for each factor, and for the rows of all ranks another: the own ones are read while the others come. */
static int factor_turns(sp_planner *w, const sp_node *n, sp_err *err) {
  int st = SP_OK, r;
  for (size_t k = 0; w->p->training && k < n->params.n_factors && !st; k++) {
    if (!(st = add_turn(w, sp_text("factor %zu of '%s'", k + 1, n->name), &r, err)) && !k) w->factor[n->index] = r;
    if (!st && w->comm_lane >= 0) st = add_turn(w, sp_text("factor %zu of '%s' of all ranks", k + 1, n->name), &r, err);
  }
  return st;
}

static int turns(sp_planner *w, sp_node *n, sp_err *err) {
  size_t i = n->index;
  bool weights = n->params.n_weights && !n->optimizer,
       gradients = w->p->training && n->params.trained && !n->params.inplace;
  int st = SP_OK;
  if (!(n->inst->type->flags & SP_STAGE_REENTRANT))
    st = add_turn(w, sp_text("the instance '%s'", n->name), &w->self[i], err);
  if (!st && weights) st = weight_turns(w, n, err);
  if (!st && weights) st = add_turn(w, sp_text("the statistics of '%s'", n->name), &w->state[i], err);
  if (!st && gradients) st = gradient_turns(w, n, err);
  return st ? st : factor_turns(w, n, err);
}

int sp_planner_resources(sp_planner *w, sp_node *n, sp_err *err) {
  int st = output_buffers(w, n, err);
  if (!st && sp_program_calls(w->p, n)) {
    keep_totals(w, n);
    if ((st = saved_buffer(w, n, err)) || (st = turns(w, n, err)) || (st = carry_buffer(w, n, err))) return st;
  }
  return st;
}
