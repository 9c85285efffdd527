/* SPDX-License-Identifier: MIT
 * reduce.c - what ranks give to each other in the last pass of a step: the totals of their losses, the rows of factors, and
 * bucket by bucket the pieces of their gradients, the sums of those, and the sums of all; each behind what makes it, while
 * the backward goes on.
 *
 * These tasks are a list that hangs on the graph, the shards and the ranks alone, so it is the same on every rank, and one
 * lane runs them in that order. So the k-th call of the communicator is the same everywhere, and what it waits for on a rank
 * is older than what waits for it: ranks cannot wait for each other in a circle. */
#include "graph/reduce.h"
#include "plan/planner.h"

#include <stdlib.h>

static int new_task(sp_planner *w, sp_task_kind kind, const char *what, size_t bucket, sp_task **t, sp_err *err) {
  sp_node *tree = w->p->g->shard_tree;
  int st;
  if (kind == SP_TASK_FORWARD) {
    if ((st = sp_planner_call(w, kind, tree, t, err))) return st;
    free((*t)->name);
    (*t)->name = sp_text("comm.%s[%zu]", what, bucket + 1);
    st = (*t)->name ? SP_OK : sp_nomem(err, 64, "a task");
  } else {
    char *name = bucket == SIZE_MAX ? sp_text("comm.%s", what) : sp_text("comm.%s[%zu]", what, bucket + 1);
    st = sp_planner_task(w, kind, NULL, name, w->comm_lane, t, err);
  }
  if (!st) sp_planner_at_end(w, *t);
  return st;
}

/* All gradients and statistics that lie in the bucket. */
static int touch(const sp_planner *w, sp_task *t, const sp_bucket *b, int mode, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < b->n && !st; i++) {
    const sp_weight_ref *r = &b->parts[i];
    st = sp_task_access(t, i < b->n_gradients ? sp_planner_gradient(w, r) : w->state[r->node->index], mode, err);
  }
  return st;
}

/* The rows of all shards of one factor. */
static int gather_rows(sp_planner *w, const sp_node *n, size_t i, sp_err *err) {
  const sp_reduce *r = w->p->g->reduce;
  size_t each = (size_t)sp_spec_bytes(&n->factors[i].spec) * (size_t)w->p->micro;
  char *rows = n->rows[i].data, *name = sp_text("comm.rows.%s[%zu]", n->name, i + 1);
  sp_task *t;
  int st = sp_planner_task(w, SP_TASK_COMM, NULL, name, w->comm_lane, &t, err);
  if (st) return st;
  sp_planner_at_end(w, t);
  t->move = (sp_move){.kind = SP_MOVE_GATHER, .to = rows, .from = rows + (size_t)r->rank * each, .each = each};
  return sp_task_access(t, w->factor[n->index] + (int)i, SP_READ | SP_WRITE, err);
}

static int gather_factors(sp_planner *w, const sp_node *n, bool forward, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < n->n_factors && !st; i++) {
    const sp_factor *f = &n->factors[i];
    if (f->forward ? forward : !forward && f->part == w->part) st = gather_rows(w, n, i, err);
  }
  return st;
}

static int gather_heads(sp_planner *w, sp_err *err) {
  sp_task *t;
  int own = w->heads, st = new_task(w, SP_TASK_COMM, "totals", SIZE_MAX, &t, err);
  size_t bytes = (size_t)w->p->g->opts.shards * 2 * sizeof(double);
  if (st || (st = sp_planner_buf(w, sp_text("the totals of all ranks"), bytes, SP_BUF_SAVED, 1, 0, &w->heads, err)))
    return st;
  t->move = (sp_move){.kind = SP_MOVE_GATHER, .to_buf = w->heads, .from_buf = own, .each = w->p->bufs[own].bytes};
  st = sp_task_access(t, own, SP_READ, err);
  return st ? st : sp_task_access(t, w->heads, SP_WRITE, err);
}

static int scatter(sp_planner *w, size_t k, sp_err *err) {
  const sp_reduce *r = w->p->g->reduce;
  const sp_bucket *b = &r->buckets[k];
  sp_task *t;
  int st = new_task(w, SP_TASK_COMM, "scatter", k, &t, err);
  if (st) return st;
  t->move = (sp_move){.to = r->pieces, .from = b->memory, .each = b->each};
  st = touch(w, t, b, SP_READ, err);
  return st ? st : sp_task_access(t, w->pieces, SP_WRITE, err);
}

/* The own piece, of which the part that is gradients comes first. */
static int add(sp_planner *w, size_t k, sp_err *err) {
  const sp_reduce *r = w->p->g->reduce;
  const sp_bucket *b = &r->buckets[k];
  size_t first = (size_t)r->rank * b->each, left = b->gradients > first ? b->gradients - first : 0;
  int64_t each = (int64_t)(b->each / sizeof(float)), n = left < b->each ? (int64_t)(left / sizeof(float)) : each;
  char *own = b->memory + first;
  sp_spec pieces = {.dtype = SP_F32, .ndim = 2, .shape = {r->n_ranks, each}};
  sp_spec heads = {.dtype = SP_F64, .ndim = 2, .shape = {w->p->g->opts.shards, 2}};
  sp_spec sums = {.dtype = SP_F32, .ndim = 1, .shape = {n}}, means = {.dtype = SP_F32, .ndim = 1, .shape = {each - n}};
  sp_task *t;
  int st = new_task(w, SP_TASK_FORWARD, "add", k, &t, err);
  if (st) return st;
  for (size_t i = 0; i < 3; i++) t->lists[i].n = i < 2 ? 1 : 2, t->offset[i] = i;
  if ((st = sp_planner_tensor(t, &pieces, r->pieces, -1, false, err)) ||
      (st = sp_planner_tensor(t, &heads, NULL, w->heads, false, err)) ||
      (st = sp_planner_tensor(t, &sums, own, -1, false, err)) ||
      (st = sp_planner_tensor(t, &means, own + n * (int64_t)sizeof(float), -1, false, err)))
    return st;
  t->first_weight = t->first_dweight = t->n_t;
  if ((st = sp_task_access(t, w->pieces, SP_READ, err)) || (st = sp_task_access(t, w->heads, SP_READ, err))) return st;
  return touch(w, t, b, SP_READ | SP_WRITE, err);
}

static int gather(sp_planner *w, size_t k, sp_err *err) {
  const sp_reduce *r = w->p->g->reduce;
  const sp_bucket *b = &r->buckets[k];
  sp_task *t;
  int st = new_task(w, SP_TASK_COMM, "gather", k, &t, err);
  if (st) return st;
  t->move = (sp_move){
      .kind = SP_MOVE_GATHER, .to = b->memory, .from = b->memory + (size_t)r->rank * b->each, .each = b->each};
  return touch(w, t, b, SP_READ | SP_WRITE, err);
}

static int broadcast(sp_planner *w, size_t k, sp_err *err) {
  const sp_bucket *b = &w->p->g->reduce->buckets[k];
  sp_task *t;
  int st = new_task(w, SP_TASK_COMM, "counts", SIZE_MAX, &t, err);
  if (st) return st;
  t->move = (sp_move){.kind = SP_MOVE_FIRST, .to = b->memory, .from = b->memory, .each = b->bytes};
  return touch(w, t, b, SP_READ | SP_WRITE, err);
}

int sp_planner_reduce(sp_planner *w, sp_err *err) {
  const sp_graph *g = w->p->g;
  int st = sp_planner_buf(w, sp_text("pieces of all ranks"), 0, 0, 1, 0, &w->pieces, err);
  for (size_t k = 0; k < g->n_nodes && !st; k++) st = gather_factors(w, g->topo[k], true, err);
  return st ? st : gather_heads(w, err);
}

static bool is_complete(const sp_planner *w, const sp_bucket *b) {
  for (size_t i = 0; i < b->n_gradients; i++) {
    const sp_node *n = b->parts[i].node;
    if (n->weights[b->parts[i].i].part >= w->made[n->index]) return false;
  }
  return true;
}

/* Sums of this rank in every pass, those of all in the last. */
static int send(sp_planner *w, size_t k, sp_err *err) {
  const sp_bucket *b = &w->p->g->reduce->buckets[k];
  int st;
  w->sent[k] = true;
  if (b->counts) return broadcast(w, k, err);
  if ((st = sp_planner_sum(w, b, err)) || (st = scatter(w, k, err)) || (st = add(w, k, err))) return st;
  return gather(w, k, err);
}

int sp_planner_reduce_part(sp_planner *w, const sp_node *n, sp_err *err) {
  const sp_reduce *r = w->p->g->reduce;
  uint32_t part = w->part;
  int st = gather_factors(w, n, false, err);
  w->made[n->index] = part + 1;
  w->part = 0; /* calls that are made now are none of the node's */
  for (size_t k = 0; k < r->n && !st; k++)
    if (!w->sent[k] && r->buckets[k].n_gradients && is_complete(w, &r->buckets[k])) st = send(w, k, err);
  w->part = part;
  return st;
}

int sp_planner_reduce_rest(sp_planner *w, sp_err *err) {
  int st = SP_OK;
  for (size_t k = 0; k < w->p->g->reduce->n && !st; k++)
    if (!w->sent[k]) st = send(w, k, err);
  return st;
}
