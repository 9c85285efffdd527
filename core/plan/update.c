/* SPDX-License-Identifier: MIT
 * update.c - what a step does with weights and gradients of all stages: shards kept and added up, the optimizer. */
#include "params/params.h"
#include "plan/planner.h"

/* ---- lists of them ---- */
int sp_planner_touch_gradient(const sp_planner *w, sp_task *t, const sp_weight_ref *r, int mode, sp_err *err) {
  const int *of = w->dweight[r->of->index];
  int resource = of ? of[r->i] : -1;
  if (resource < 0 && r->of->dw[r->i].data)
    return sp_fail(err, SP_E_INTERNAL, "'%s': nobody takes turns at the gradient of '%s.%s'", t->name, r->of->name,
                   r->of->weights[r->i].name);
  return sp_task_access(t, resource, mode, err);
}

/* Those that shards add: the bucket's, or (NULL) all; of others the tensor has no data. */
static int put_summed(sp_planner *w, sp_task *t, const sp_bucket *b, sp_err *err) {
  int st = SP_OK;
  for (sp_weight_ref r = {0}; !st && sp_store_next_summed(&w->p->g->store, &r);) {
    bool in = !b || sp_bucket_has(b, &r);
    st = sp_task_tensor(t, &r.of->weights[r.i].spec, in ? r.of->dw[r.i].data : NULL, -1, false, err);
    if (!st && in) st = sp_planner_touch_gradient(w, t, &r, SP_READ | SP_WRITE, err);
  }
  return st;
}

/* The optimizer's call that updates the weight: the first has those of the first bucket, and so on, the last one those
 * of the last bucket and all that are in none. */
static uint32_t update_with(const sp_planner *w, const sp_weight_ref *r) {
  const sp_reduce *x = w->p->g->store.reduce;
  uint32_t k = 0;
  while (k + 1 < w->updates && !sp_bucket_has(&x->buckets[k], r)) k++;
  return k;
}

static bool is_elsewhere(const sp_planner *w, const sp_task *t, const sp_weight_ref *r) {
  return t->kind == SP_TASK_UPDATE && update_with(w, r) != t->part;
}

/* Those that the optimizer sees, of which this rank may have a slice each. */
static int put_gradients(sp_planner *w, sp_task *t, sp_err *err) {
  const sp_graph *g = w->p->g;
  size_t k = 0;
  int st = SP_OK;
  for (sp_weight_ref r = {0}; !st && sp_store_next_trained(&g->store, &r); k++) {
    sp_tensor x = sp_store_slice_tensor(&g->store, k, &r.of->dw[r.i]);
    bool here = !is_elsewhere(w, t, &r);
    st = sp_task_tensor(t, &x.spec, here ? x.data : NULL, -1, false, err);
    if (!st && here) st = sp_planner_touch_gradient(w, t, &r, SP_READ, err);
  }
  return st;
}

/* mode 0: the call is told where they are, and leaves them alone. */
static int put_trained(sp_planner *w, sp_task *t, bool whole, int mode, sp_err *err) {
  const sp_graph *g = w->p->g;
  size_t k = 0;
  int st = SP_OK;
  for (sp_weight_ref r = {0}; !st && sp_store_next_trained(&g->store, &r); k++) {
    const sp_tensor *all = &r.of->w[r.i];
    sp_tensor x = whole ? *all : sp_store_slice_tensor(&g->store, k, all);
    bool here = !is_elsewhere(w, t, &r);
    st = sp_task_tensor(t, &x.spec, here ? x.data : NULL, -1, false, err);
    if (!st && mode && here) st = sp_planner_touch_weight(w, t, &r, mode, err);
  }
  return st;
}

static int put_statistics(sp_planner *w, sp_task *t, const sp_bucket *b, sp_err *err) {
  int st = SP_OK;
  for (sp_weight_ref r = {0}; !st && sp_store_next_statistic(&w->p->g->store, &r);) {
    bool in = !b || sp_bucket_has(b, &r);
    st = sp_task_tensor(t, &r.of->weights[r.i].spec, in ? r.of->w[r.i].data : NULL, -1, false, err);
    if (!st && in) st = sp_task_access(t, w->state[r.of->index], SP_READ | SP_WRITE, err);
  }
  return st;
}

/* ---- shards ---- */
/* In each pass, also one without samples. Its inputs change in place. */
static int shards_call(sp_planner *w, sp_node *n, sp_task **t, sp_err *err) {
  int st = sp_planner_call(w, SP_TASK_FORWARD, n, t, err);
  if (st) return st;
  (*t)->always = true;
  return sp_planner_use(w, *t, SP_READ | SP_WRITE, err);
}

int sp_planner_keep(sp_planner *w, sp_err *err) {
  sp_node *n = w->p->g->shards.keep;
  sp_task *t;
  int st = shards_call(w, n, &t, err);
  if (st) return st;
  sp_task_begin_list(t, 1, n->in_specs[1].n);
  st = put_statistics(w, t, NULL, err);
  sp_task_no_weights(t);
  return st;
}

int sp_planner_count(sp_planner *w, sp_err *err) {
  sp_task *t;
  int st = shards_call(w, w->p->g->shards.count, &t, err);
  if (!st) st = sp_planner_inputs(w, t, err);
  if (!st) st = sp_planner_outputs(w, t, 0, SP_READ | SP_WRITE, err);
  if (!st) sp_task_no_weights(t);
  w->totals = w->act[w->p->g->shards.count->index][0];
  return st;
}

int sp_planner_sum(sp_planner *w, const sp_bucket *b, sp_err *err) {
  sp_node *n = w->p->g->shards.sum;
  sp_task *t;
  int st = shards_call(w, n, &t, err);
  if (st) return st;
  if (!w->p->sharded) sp_planner_at_end(w, t);
  sp_task_begin_list(t, 0, n->in_specs[0].n);
  st = put_summed(w, t, b, err);
  sp_task_begin_list(t, 1, n->in_specs[1].n);
  if (!st && n->in_specs[1].n) st = put_statistics(w, t, b, err);
  if (!st) st = sp_task_totals(t, 2, w->act[w->p->g->shards.count->index][0], w->p->g->train.accumulate, err);
  sp_task_no_weights(t);
  return st;
}

int sp_planner_scale(sp_planner *w, sp_err *err) {
  sp_task *t;
  int st = sp_planner_call(w, SP_TASK_FORWARD, w->p->g->shards.scale, &t, err);
  if (st) return st;
  sp_planner_at_end(w, t);
  st = sp_task_totals(t, 0, w->totals, w->p->g->opts.shards, err);
  if (!st) st = sp_planner_outputs(w, t, 0, SP_WRITE, err);
  sp_task_no_weights(t);
  return st;
}

/* ---- the optimizer ---- */
/* What the optimizer keeps; of what ranks have slices of this one's. */
static int put_kept(sp_planner *w, sp_task *t, bool data, sp_err *err) {
  const sp_node *opt = w->p->g->train.optimizer;
  int st = SP_OK;
  for (size_t i = 0; i < opt->params.n_weights && !st; i++) {
    bool sliced = sp_weights_sliced(&opt->params, i);
    const sp_spec *spec = sliced ? &opt->in_specs[0].spec[opt->params.weights[i].of - 1] : &opt->params.weights[i].spec;
    st = sp_task_tensor(t, spec, data ? opt->params.w[i].data : NULL, -1, false, err);
  }
  return st;
}

/* A call of the optimizer: gradients, weights, statistics and what it keeps. */
static int optimizer_call(sp_planner *w, sp_task_kind kind, int mode, sp_task **out, sp_err *err) {
  sp_graph *g = w->p->g;
  sp_node *opt = g->train.optimizer;
  sp_task *t;
  int st = sp_planner_call(w, kind, opt, &t, err);
  if (st) return st;
  *out = t;
  sp_planner_at_end(w, t);
  sp_task_begin_list(t, 0, opt->in_specs[0].n);
  st = put_gradients(w, t, err);
  sp_task_begin_list(t, opt->n_in, opt->in_specs[0].n);
  if (!st) st = put_trained(w, t, false, mode, err);
  return st ? st : sp_task_access(t, w->self[opt->index], SP_READ | SP_WRITE, err);
}

static int end_weights(sp_planner *w, sp_task *t, sp_err *err) {
  t->first_weight = t->n_t;
  int st = put_kept(w, t, true, err);
  t->first_dweight = t->n_t;
  return st ? st : put_kept(w, t, false, err);
}

int sp_planner_survey_call(sp_planner *w, int sums, sp_err *err) {
  sp_task *t;
  int st = optimizer_call(w, SP_TASK_SURVEY, 0, &t, err);
  if (st || (st = end_weights(w, t, err))) return st;
  t->sums_buf = sums;
  return sp_task_access(t, sums, SP_WRITE, err);
}

static int update_call(sp_planner *w, sp_err *err) {
  sp_task *t;
  int st = optimizer_call(w, SP_TASK_UPDATE, SP_READ | SP_WRITE, &t, err);
  if (!st && sp_store_restores(&w->p->g->store)) {
    sp_task_begin_list(t, 1, w->p->g->train.optimizer->in_specs[1].n);
    st = put_statistics(w, t, NULL, err);
  }
  if (!st) st = sp_planner_outputs(w, t, 1, t->part ? SP_READ | SP_WRITE : SP_WRITE, err);
  if (st || (st = end_weights(w, t, err))) return st;
  t->sums_buf = w->sums;
  return sp_task_access(t, w->sums, SP_READ, err);
}

int sp_planner_end(sp_planner *w, sp_node *n, uint32_t part, sp_err *err) {
  if (!sp_grow(&w->ends, &w->cap_ends, w->n_ends + 1, sizeof *w->ends)) return sp_nomem(err, 64, "a task");
  w->ends[w->n_ends++] = (sp_end){.node = n, .part = part};
  return SP_OK;
}

int sp_planner_update(sp_planner *w, uint32_t part, sp_err *err) {
  w->part = part;
  int st = update_call(w, err);
  w->part = 0;
  return st;
}

int sp_planner_look(sp_planner *w, sp_err *err) {
  sp_node *opt = w->p->g->train.optimizer;
  sp_task *t;
  int st = sp_planner_call(w, SP_TASK_LOOK, opt, &t, err);
  if (st) return st;
  sp_planner_at_end(w, t);
  sp_task_begin_list(t, opt->n_in, opt->in_specs[0].n);
  st = put_trained(w, t, true, SP_READ, err);
  sp_task_no_weights(t);
  return st;
}
