/* SPDX-License-Identifier: MIT
 * passes.c - the calls that a stage's forward, its backward and what that makes of factors are. */
#include "params/params.h"
#include "plan/planner.h"

/* The gradient that the k-th tensor of input i sends to where it comes from. The first to write one, in serialized
 * order, overwrites; the others add: tasks are made in that order, and a buffer without an access yet has no writer.
 * Parts of a backward are told alike what was there before the first of them. */
static int send_gradient(sp_planner *w, sp_task *t, unsigned i, size_t k, bool *written, int *buf, sp_err *err) {
  int st = sp_planner_grad_buf(w, t->node->in[i].v[k], buf, err);
  if (st) return st;
  t->din_acc[i][k] = t->part ? w->p->tasks[w->before].din_acc[i][k] : written[*buf];
  written[*buf] = true;
  return sp_task_access(t, *buf, t->part || t->din_acc[i][k] ? SP_READ | SP_WRITE : SP_WRITE, err);
}

static int new_din_acc(sp_task *t, sp_err *err) {
  const sp_node *n = t->node;
  t->din_acc = sp_calloc(n->n_in + 1, sizeof *t->din_acc);
  bool made = t->din_acc;
  for (unsigned i = 0; i < n->n_in && made; i++) made = (t->din_acc[i] = sp_calloc(n->in[i].n + 1, 1));
  return made ? SP_OK : sp_nomem(err, 64, "a task");
}

static int put_input_gradients(sp_planner *w, sp_task *t, bool wanted, bool *written, sp_err *err) {
  sp_node *n = t->node;
  int st = wanted ? new_din_acc(t, err) : SP_OK;
  for (unsigned i = 0; i < n->n_in && !st; i++) {
    sp_task_begin_list(t, n->n_in + 2 * n->n_out + i, (uint32_t)n->in[i].n);
    for (size_t k = 0; k < n->in[i].n && !st; k++) {
      sp_ref r = n->in[i].v[k];
      int buf = -1;
      if (wanted && r.node->flow.backward && sp_ref_grad(n, (int)i, r))
        st = send_gradient(w, t, i, k, written, &buf, err);
      const sp_spec *s = &n->in_specs[i].spec[k];
      if (!st) st = sp_task_tensor(t, s, NULL, buf, sp_node_batch_out(r.node, r.port, s), err);
    }
  }
  return st;
}

static int put_weights(sp_planner *w, sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  bool apply = t->kind == SP_TASK_APPLY,
       want_dw = (t->kind == SP_TASK_BACKWARD && n->params.trained && !n->params.inplace) || apply;
  bool updates_state = t->kind == SP_TASK_FORWARD && w->p->training && !n->frozen;
  int st = SP_OK;
  t->first_weight = t->n_t;
  for (size_t i = 0; i < n->params.n_weights && !st; i++) {
    bool there = !apply || (n->params.weights[i].flags & SP_WEIGHT_FACTORS && n->params.weights[i].part == t->part);
    st = sp_task_tensor(t, &n->params.weights[i].spec, there ? n->params.w[i].data : NULL, -1, false, err);
  }
  t->first_dweight = t->n_t;
  for (size_t i = 0; i < n->params.n_weights && !st; i++) {
    bool gives = want_dw && sp_weights_has_dw(&n->params, i) && sp_weights_sums(&n->params, i) != apply;
    st = sp_task_tensor(t, &n->params.weights[i].spec, gives ? n->params.dw[i].data : NULL, -1, false, err);
    sp_weight_ref r = {.of = &n->params, .i = i};
    if (!st && gives && n->params.weights[i].part == t->part)
      st = sp_planner_touch_gradient(w, t, &r, SP_READ | SP_WRITE, err);
  }
  for (uint32_t part = t->part; !st && n->params.n_weights && part < n->n_parts && !apply; part++) {
    int mode = t->kind == SP_TASK_BACKWARD && n->params.inplace && part == t->part ? SP_READ | SP_WRITE : SP_READ;
    st = sp_task_access(t, sp_planner_weight(w, &n->params, part, false), mode, err);
    if (!st && n->params.n_factors) st = sp_task_access(t, sp_planner_weight(w, &n->params, part, true), mode, err);
  }
  if (!st && apply && n->g->store.applied)
    st = sp_task_access(t, sp_planner_weight(w, &n->params, t->part, true), SP_READ | SP_WRITE, err);
  if (!st && n->params.n_weights && !apply)
    st = sp_task_access(t, w->state[n->index], updates_state ? SP_READ | SP_WRITE : SP_READ, err);
  return st;
}

/* What a forward or a backward does with it, and whether it is all there then: later parts only read it. */
static int factor_mode(const sp_factor *f, const sp_task *t, bool *completes) {
  bool forward = t->kind == SP_TASK_FORWARD;
  *completes = f->forward ? forward : !forward && f->part - f->early == t->part;
  if (f->forward) return forward ? SP_WRITE : SP_READ;
  if (forward) return 0;
  return t->part <= f->part - f->early ? SP_READ | SP_WRITE : SP_READ; /* parts before may begin it */
}

/* Those of the pass. */
static int put_factors(sp_planner *w, sp_task *t, sp_err *err) {
  const sp_node *n = t->node;
  int st = SP_OK, rank = n->g->store.reduce ? n->g->store.reduce->rank : 0;
  if (!w->p->training || !n->params.n_factors) return SP_OK;
  t->first_factor = t->n_t;
  for (size_t i = 0; i < n->params.n_factors && !st; i++) {
    const sp_factor *f = &n->params.factors[i];
    size_t each = (size_t)sp_spec_bytes(&f->spec);
    bool completes;
    int mode = factor_mode(f, t, &completes);
    t->zeroes |= completes;
    st = sp_task_tensor(t, &f->spec, (char *)n->params.rows[i].data + (size_t)rank * (size_t)w->p->micro * each, 0,
                        false, err);
    if (st) break;
    t->binds[t->n_binds - 1] = (sp_bind){.tensor = (uint32_t)t->n_t - 1, .buf = -1, .each = each};
    if (mode) st = sp_task_access(t, sp_planner_factor(w, n, i, false), mode, err);
  }
  return st;
}

/* Between the node's outputs and its rows in a table: no program that reads one runs beside one that fills it. The
 * machine has the table. */
static int cache_call(sp_planner *w, sp_node *n, sp_inst *instead, const char *what, int mode, sp_err *err) {
  char *name = sp_planner_call_name(w, n, what);
  sp_task *t;
  int st = sp_planner_task(w, SP_TASK_FORWARD, n, name, w->lane[n->index][SP_LANE_FORWARD], &t, err);
  if (st || (st = sp_planner_tell(w, t, err)) || (st = sp_planner_outputs(w, t, 0, mode, err))) return st;
  t->instead = instead;
  t->first_weight = t->n_t;
  for (size_t f = 0; f < sp_node_n_flat(n) && !st; f++) {
    sp_spec s = sp_table_spec(n, f, w->p->source);
    st = sp_task_tensor(t, &s, NULL, -1, false, err);
  }
  t->first_dweight = t->n_t;
  return st;
}

/* A forward, or a part of a backward. gives: it sends gradients to its inputs. */
static int pass(sp_planner *w, sp_task_kind kind, sp_node *n, bool gives, bool *written, sp_task **out, sp_err *err) {
  int mode = kind == SP_TASK_FORWARD ? SP_WRITE : SP_READ, st = sp_planner_call(w, kind, n, out, err);
  if (st) return st;
  sp_task *t = *out;
  if ((st = sp_planner_inputs(w, t, err)) || (st = sp_planner_outputs(w, t, 0, mode, err)) ||
      (st = sp_planner_output_gradients(w, t, err)) || (st = put_input_gradients(w, t, gives, written, err)) ||
      (st = put_weights(w, t, err)) || (st = put_factors(w, t, err)))
    return st;
  return sp_planner_use(w, t, mode, err);
}

int sp_planner_forward(sp_planner *w, sp_node *n, bool *written, sp_err *err) {
  if (!sp_program_calls(w->p, n)) return cache_call(w, n, n->cache->get, "cached", SP_WRITE, err);
  bool gives = sp_node_trained_on(n) && w->p->training && w->p->g->train.on;
  sp_task *t;
  int st = pass(w, SP_TASK_FORWARD, n, gives, written, &t, err);
  return st || !w->p->fills || !n->cache ? st : cache_call(w, n, n->cache->put, "keep", SP_READ, err);
}

static int backward_part(sp_planner *w, sp_node *n, bool *written, sp_err *err) {
  sp_task *t;
  int st = pass(w, SP_TASK_BACKWARD, n, true, written, &t, err);
  if (!st) w->before = (size_t)t->index;
  return st;
}

static bool has_factors(const sp_node *n, uint32_t part) {
  for (size_t i = 0; n->params.n_factors && i < n->params.n_weights; i++)
    if (n->params.weights[i].flags & SP_WEIGHT_FACTORS && n->params.weights[i].part == part) return true;
  return false;
}

/* The call that completes the last of what apply() of the part may read. */
static uint32_t arrival(const sp_node *n, uint32_t part) {
  uint32_t last = 0;
  bool any = false;
  for (size_t i = 0; i < n->params.n_factors; i++) {
    const sp_factor *f = &n->params.factors[i];
    if (f->forward || f->part > part) continue;
    any = true;
    if (f->part - f->early > last) last = f->part - f->early;
  }
  return any ? last : part;
}

/* What the part that was just made completes; no apply() comes before that of an earlier part. */
static int end_parts(sp_planner *w, sp_node *n, sp_err *err) {
  uint32_t last = 0;
  int st = SP_OK;
  for (uint32_t part = 0; part < n->n_parts && !st; part++) {
    if (!has_factors(n, part)) continue;
    uint32_t own = arrival(n, part);
    if (own > last) last = own;
    if (last == w->part) st = sp_planner_end(w, n, part, err);
  }
  return st;
}

int sp_planner_backward(sp_planner *w, sp_node *n, bool *written, sp_err *err) {
  int st = SP_OK;
  for (w->part = 0; w->part < n->n_parts && !st; w->part++) {
    st = backward_part(w, n, written, err);
    if (!st) st = end_parts(w, n, err);
    if (!st && w->comm_lane >= 0) st = sp_planner_reduce_part(w, n, err);
  }
  w->part = 0;
  return st;
}

int sp_planner_apply(sp_planner *w, sp_node *n, uint32_t part, sp_err *err) {
  sp_task *t;
  w->part = part;
  int st = sp_planner_call(w, SP_TASK_APPLY, n, &t, err);
  if (st || (st = put_weights(w, t, err))) return st;
  sp_planner_at_end(w, t);
  t->first_factor = t->n_t;
  for (size_t i = 0; i < n->params.n_factors && !st; i++) {
    const sp_factor *f = &n->params.factors[i];
    st = sp_task_tensor(t, &n->params.rows[i].spec, n->params.rows[i].data, -1, false, err);
    for (int all = 0; all < 2 && !st && (f->forward || f->part <= part); all++)
      st = sp_task_access(t, sp_planner_factor(w, n, i, all), SP_READ, err);
  }
  t->scale_buf = w->act[w->p->g->shards.scale->index][0];
  if (!st) st = sp_task_access(t, t->scale_buf, SP_READ, err);
  w->part = 0;
  return st ? st : sp_task_access(t, w->self[n->index], SP_READ | SP_WRITE, err);
}
