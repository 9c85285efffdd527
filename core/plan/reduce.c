/* SPDX-License-Identifier: MIT
 * reduce.c - what ranks give to each other in the last pass of a step: rows of factors, the totals of their losses, and
 * bucket by bucket the pieces of their gradients, the sums of those, and the sums of all; each behind what makes it,
 * while the backward goes on. Where each updates slices, weights go in the place of sums, behind the update.
 *
 * These tasks are a list that hangs on the graph, the shards and the ranks alone, so it is the same on every rank, and
 * one lane runs them in that order. So the k-th call of the communicator is the same everywhere, and what it waits for
 * on a rank is older than what waits for it: ranks cannot wait for each other in a circle. */
#include "params/params.h"
#include "plan/planner.h"

#include <stdio.h>
#include <stdlib.h>

static int add_move(sp_task *t, sp_move move, sp_err *err) {
  if (!sp_grow(&t->calls, &t->cap_calls, t->n_calls + 1, sizeof *t->calls)) return sp_nomem(err, 64, "a call");
  t->calls[t->n_calls++] = move;
  return SP_OK;
}

/* A call of a stage that the graph has added, or (NULL) of the communicator. */
static int new_task(sp_planner *w, sp_node *node, const char *what, size_t bucket, sp_task **t, sp_err *err) {
  char *name = bucket == SIZE_MAX ? sp_text("comm.%s", what) : sp_text("comm.%s[%zu]", what, bucket + 1);
  int st = SP_OK;
  if (!node) st = sp_planner_task(w, SP_TASK_COMM, NULL, name, w->comm_lane, t, err);
  else if (!name || (st = sp_planner_call(w, SP_TASK_FORWARD, node, t, err))) free(name);
  else free((*t)->name), (*t)->name = name;
  if (st || !name) return st ? st : sp_nomem(err, 64, "a task");
  sp_planner_at_end(w, *t);
  return SP_OK;
}

/* All gradients and statistics that lie in the bucket. */
static int touch(const sp_planner *w, sp_task *t, const sp_bucket *b, int mode, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < b->n && !st; i++) {
    const sp_weight_ref *r = &b->parts[i];
    if (i < b->n_gradients) st = sp_planner_touch_gradient(w, t, r, mode, err);
    else st = sp_task_access(t, w->state[r->of->index], mode, err);
  }
  return st;
}

/* The rows of all shards of a factor, which the task moves, too. */
static int gather_rows(sp_planner *w, sp_task *t, const sp_node *n, size_t i, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  size_t each = (size_t)sp_spec_bytes(&n->params.factors[i].spec) * (size_t)w->p->micro;
  char *rows = n->params.rows[i].data;
  int st = add_move(t, (sp_move){SP_MOVE_GATHER, rows, rows + (size_t)r->rank * each, -1, -1, each}, err);
  if (!st) st = sp_task_access(t, sp_planner_factor(w, n, i, false), SP_READ, err);
  return st ? st : sp_task_access(t, sp_planner_factor(w, n, i, true), SP_WRITE, err);
}

/* Those of forward(), or those that the part of the backward completes. */
static bool is_gathered(const sp_planner *w, const sp_factor *f, bool forward) {
  return f->forward ? forward : !forward && f->part - f->early == w->part;
}

/* All of them at once: a call of the communicator takes longer than such bytes do. Of what a part completes the last
 * comes first, as its apply() does. */
static int gather_factors(sp_planner *w, const sp_node *n, bool forward, sp_err *err) {
  char name[160];
  size_t used = (size_t)snprintf(name, sizeof name, "rows.%.64s", n->name), list[SP_MAX_FACTORS], count = 0;
  sp_task *t;
  for (size_t k = 0; k < n->params.n_factors; k++) {
    size_t i = forward ? k : n->params.n_factors - 1 - k;
    if (!is_gathered(w, &n->params.factors[i], forward)) continue;
    if (used < sizeof name - 16)
      used += (size_t)snprintf(name + used, sizeof name - used, "%c%zu", count ? ',' : '[', i + 1);
    list[count++] = i;
  }
  if (!count) return SP_OK;
  snprintf(name + used, sizeof name - used, used < sizeof name - 16 ? "]" : ",..]");
  int st = new_task(w, NULL, name, SIZE_MAX, &t, err);
  for (size_t k = 0; k < count && !st; k++) st = gather_rows(w, t, n, list[k], err);
  return st;
}

static int gather_totals(sp_planner *w, sp_err *err) {
  sp_task *t;
  int own = w->totals, st = new_task(w, NULL, "totals", SIZE_MAX, &t, err);
  size_t bytes = (size_t)w->p->g->opts.shards * 2 * sizeof(double);
  if (st || (st = sp_planner_buf(w, sp_text("the totals of all ranks"), bytes, SP_BUF_SAVED, 1, 0, &w->totals, err)))
    return st;
  st = add_move(
      t, (sp_move){.kind = SP_MOVE_GATHER, .to_buf = w->totals, .from_buf = own, .each = w->p->bufs[own].bytes}, err);
  if (!st) st = sp_task_access(t, own, SP_READ, err);
  return st ? st : sp_task_access(t, w->totals, SP_WRITE, err);
}

/* ---- a bucket ---- */
/* It goes as bfloat16, as which it lies in memory of its own on the way. */
static bool is_half(const sp_planner *w, const sp_bucket *b) { return w->p->g->shards.wire && b->n_gradients; }

/* What the communicator moves of a bucket: all of its pieces, of so many bytes each. */
static char *moved(const sp_planner *w, const sp_bucket *b, size_t *each) {
  const sp_reduce *r = w->p->g->store.reduce;
  *each = is_half(w, b) ? b->each / 2 : b->each;
  return is_half(w, b) ? r->wire : b->memory;
}

static int access_moved(const sp_planner *w, sp_task *t, const sp_bucket *b, int mode, sp_err *err) {
  return is_half(w, b) ? sp_task_access(t, w->wire, mode, err) : touch(w, t, b, mode, err);
}

/* One tensor, which alone is its list. */
static int put_one(sp_task *t, size_t list, const sp_spec *spec, void *data, int buf, sp_err *err) {
  sp_task_begin_list(t, list, 1);
  return sp_task_tensor(t, spec, data, buf, false, err);
}

static int put_totals(sp_planner *w, sp_task *t, size_t list, sp_err *err) {
  return sp_task_totals(t, list, w->totals, w->p->g->opts.shards, err);
}

/* To bfloat16, or from there what is then divided: of all pieces, or where ranks have slices of the own one. */
static int convert(sp_planner *w, size_t k, bool back, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  const sp_bucket *b = &r->buckets[k];
  bool own = back && w->p->g->store.sliced;
  size_t at = own ? (size_t)r->rank * b->each : 0;
  char *from = b->memory + at, *wire = r->wire + at / 2;
  int64_t n = (int64_t)((own ? b->each : b->bytes) / sizeof(float));
  sp_spec wide = {.dtype = SP_F32, .ndim = 1, .shape = {n}}, half = {.dtype = SP_BF16, .ndim = 1, .shape = {n}};
  sp_task *t;
  int st = new_task(w, w->p->g->shards.wire, back ? "unpack" : "pack", k, &t, err);
  if (st || (st = put_one(t, 0, back ? &half : &wide, back ? wire : from, -1, err))) return st;
  if (back && (st = put_totals(w, t, 1, err))) return st;
  if ((st = put_one(t, 2, back ? &wide : &half, back ? from : wire, -1, err))) return st;
  sp_task_no_weights(t);
  if ((st = sp_task_access(t, w->wire, back ? SP_READ : SP_WRITE, err))) return st;
  return touch(w, t, b, back ? SP_READ | SP_WRITE : SP_READ, err);
}

static int scatter(sp_planner *w, size_t k, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  const sp_bucket *b = &r->buckets[k];
  sp_task *t;
  size_t each;
  char *memory = moved(w, b, &each);
  int st = new_task(w, NULL, "scatter", k, &t, err);
  if (st) return st;
  st = add_move(t, (sp_move){.to = r->pieces, .from = memory, .each = each}, err);
  if (!st) st = access_moved(w, t, b, SP_READ, err);
  return st ? st : sp_task_access(t, w->pieces, SP_WRITE, err);
}

/* The own piece, of which the part that is gradients comes first.
 * What is bfloat16 is divided when it is float32 again. */
static int add(sp_planner *w, size_t k, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  const sp_bucket *b = &r->buckets[k];
  bool half = is_half(w, b);
  size_t first = (size_t)r->rank * b->each, left = b->gradients > first ? b->gradients - first : 0, bytes;
  int64_t each = (int64_t)(b->each / sizeof(float)), n = left < b->each ? (int64_t)(left / sizeof(float)) : each;
  char *own = moved(w, b, &bytes);
  own += (size_t)r->rank * bytes;
  if (half) n = each;
  sp_spec pieces = {.dtype = half ? SP_BF16 : SP_F32, .ndim = 2, .shape = {r->n_ranks, each}};
  sp_spec sums = {.dtype = pieces.dtype, .ndim = 1, .shape = {n}};
  sp_spec means = {.dtype = SP_F32, .ndim = 1, .shape = {each - n}};
  sp_task *t;
  int st = new_task(w, w->p->g->shards.tree, "add", k, &t, err);
  if (st || (st = put_one(t, 0, &pieces, r->pieces, -1, err)) || (st = put_totals(w, t, 1, err)) ||
      (st = put_one(t, 2, &sums, own, -1, err)))
    return st;
  if (!half) {
    t->lists[2].n = 2;
    if ((st = sp_task_tensor(t, &means, own + n * (int64_t)sizeof(float), -1, false, err))) return st;
  }
  sp_task_no_weights(t);
  if ((st = sp_task_access(t, w->pieces, SP_READ, err))) return st;
  return access_moved(w, t, b, SP_READ | SP_WRITE, err);
}

static int gather(sp_planner *w, size_t k, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  const sp_bucket *b = &r->buckets[k];
  sp_task *t;
  size_t each;
  char *memory = moved(w, b, &each);
  int st = new_task(w, NULL, "gather", k, &t, err);
  if (st) return st;
  st = add_move(
      t, (sp_move){.kind = SP_MOVE_GATHER, .to = memory, .from = memory + (size_t)r->rank * each, .each = each}, err);
  return st ? st : access_moved(w, t, b, SP_READ | SP_WRITE, err);
}

static int broadcast(sp_planner *w, size_t k, sp_err *err) {
  const sp_bucket *b = &w->p->g->store.reduce->buckets[k];
  sp_task *t;
  int st = new_task(w, NULL, "counts", SIZE_MAX, &t, err);
  if (st) return st;
  st = add_move(t, (sp_move){.kind = SP_MOVE_FIRST, .to = b->memory, .from = b->memory, .each = b->bytes}, err);
  return st ? st : touch(w, t, b, SP_READ | SP_WRITE, err);
}

/* Before the totals, which no backward waits for: so rows come beside the loss and the small calls behind it, not
 * beside products that would share the device with them. */
int sp_planner_reduce_rows(sp_planner *w, sp_err *err) {
  const sp_graph *g = w->p->g;
  int st = SP_OK;
  for (size_t k = 0; k < g->n_nodes && !st; k++) st = gather_factors(w, g->topo[k], true, err);
  return st;
}

int sp_planner_reduce(sp_planner *w, sp_err *err) {
  const sp_graph *g = w->p->g;
  int st = sp_planner_buf(w, sp_text("pieces of all ranks"), 0, 0, 1, 0, &w->pieces, err);
  if (!st && g->shards.wire) st = sp_planner_buf(w, sp_text("gradients as bfloat16"), 0, 0, 1, 0, &w->wire, err);
  if (!st) st = gather_totals(w, err);
  if (!st && g->shards.scale && sp_program_has(w->p, g->shards.scale)) st = sp_planner_scale(w, err);
  return st;
}

static bool is_complete(const sp_planner *w, const sp_bucket *b) {
  for (size_t i = 0; i < b->n_gradients; i++) {
    const sp_weight_ref *r = &b->parts[i];
    if (r->of->weights[r->i].part >= w->made[r->of->index]) return false;
  }
  return true;
}

/* The update of each bucket behind those of the buckets before it. */
static int end_buckets(sp_planner *w, sp_err *err) {
  int st = SP_OK;
  for (; w->ended < w->p->g->store.reduce->n && w->sent[w->ended] && !st; w->ended++)
    st = sp_planner_end(w, NULL, w->ended, err);
  return st;
}

/* Sums of this rank in every pass, those of all in the last. */
static int send(sp_planner *w, size_t k, sp_err *err) {
  const sp_bucket *b = &w->p->g->store.reduce->buckets[k];
  int st;
  w->sent[k] = true;
  if (b->counts) return broadcast(w, k, err);
  st = sp_planner_sum(w, b, err);
  if (!st && is_half(w, b)) st = convert(w, k, false, err);
  bool all = !w->p->g->store.sliced || !b->n_gradients; /* what only this rank updates only it needs */
  if (st || (st = scatter(w, k, err)) || (st = add(w, k, err)) || (all && (st = gather(w, k, err)))) return st;
  if (is_half(w, b)) st = convert(w, k, true, err);
  return st ? st : end_buckets(w, err);
}

/* Gradients, which are sent when they are complete. */
static bool waits(const sp_planner *w, size_t k) {
  const sp_bucket *b = &w->p->g->store.reduce->buckets[k];
  return !w->sent[k] && b->n_gradients && !b->factors;
}

/* The backward has yet to make rows of factors. */
static bool rows_come(const sp_planner *w) {
  const sp_graph *g = w->p->g;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *n = g->nodes[i];
    for (size_t k = 0; n->flow.backward && sp_program_has(w->p, n) && k < n->params.n_factors; k++)
      if (!n->params.factors[k].forward && n->params.factors[k].part - n->params.factors[k].early >= w->made[n->index])
        return true;
  }
  return false;
}

/* The last bucket goes behind the rows that are to come: of what is still to be sent they are wanted first, by an
 * apply(), and all calls of apply() have yet to be made when the update wants the bucket.
 * A bucket before it has the backward to itself. */
static bool comes_last(const sp_planner *w, size_t bucket) {
  for (size_t k = 0; k < w->p->g->store.reduce->n; k++)
    if (k != bucket && waits(w, k)) return false;
  return rows_come(w);
}

int sp_planner_reduce_part(sp_planner *w, const sp_node *n, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  uint32_t part = w->part;
  int st = gather_factors(w, n, false, err);
  w->made[n->index] = part + 1;
  w->part = 0; /* calls that are made now are none of the node's */
  for (size_t k = 0; k < r->n && !st; k++)
    if (waits(w, k) && is_complete(w, &r->buckets[k]) && !comes_last(w, k)) st = send(w, k, err);
  w->part = part;
  return st;
}

int sp_planner_reduce_rest(sp_planner *w, sp_err *err) {
  int st = SP_OK;
  for (size_t k = 0; k < w->p->g->store.reduce->n && !st; k++)
    if (!w->sent[k] && !w->p->g->store.reduce->buckets[k].factors) st = send(w, k, err);
  return st;
}

/* ---- slices ---- */
int sp_planner_survey(sp_planner *w, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  size_t each = r->sums * sizeof(double);
  sp_task *t;
  int own, st;
  if (!w->p->g->train.optimizer->inst->type->survey) return SP_OK;
  if ((st = sp_planner_buf(w, sp_text("sums of slices"), each, SP_BUF_SAVED, 1, 0, &own, err)) ||
      (st = sp_planner_buf(w, sp_text("sums of the slices of all ranks"), each * (size_t)r->n_ranks, SP_BUF_SAVED, 1, 0,
                           &w->sums, err)) ||
      (st = sp_planner_survey_call(w, own, err)) || (st = new_task(w, NULL, "sums", SIZE_MAX, &t, err)))
    return st;
  st = add_move(t, (sp_move){.kind = SP_MOVE_GATHER, .to_buf = w->sums, .from_buf = own, .each = each}, err);
  if (!st) st = sp_task_access(t, own, SP_READ, err);
  return st ? st : sp_task_access(t, w->sums, SP_WRITE, err);
}

static int spread(sp_planner *w, size_t k, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  const sp_bucket *b = &r->buckets[k];
  sp_task *t;
  int st = new_task(w, NULL, "weights", k, &t, err);
  if (st) return st;
  sp_move all = {SP_MOVE_GATHER, b->weights, b->weights + (size_t)r->rank * b->each, -1, -1, b->each};
  st = add_move(t, all, err);
  for (size_t i = 0; i < b->n_gradients && !st; i++)
    st = sp_planner_touch_weight(w, t, &b->parts[i], SP_READ | SP_WRITE, err);
  return st;
}

/* The weights that the next step wants first are in the last buckets. */
int sp_planner_spread(sp_planner *w, sp_err *err) {
  const sp_reduce *r = w->p->g->store.reduce;
  int st = SP_OK;
  for (size_t k = r->n; k-- > 0 && !st;)
    if (r->buckets[k].weights) st = spread(w, k, err);
  return st;
}
