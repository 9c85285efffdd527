/* SPDX-License-Identifier: MIT
 * slices.c - each rank has a slice of every trained weight: what of it lies in its piece of the weight's bucket. That it
 * updates, and of that alone it keeps what the optimizer keeps. See reduce.h. */
#include "graph/reduce.h"

#include <stdlib.h>
#include <string.h>

bool sp_node_sliced(const sp_node *n, size_t i) {
  return n->g->sliced && n == n->g->train.optimizer && n->params.weights[i].of;
}

const sp_extent *sp_graph_slice_of(const sp_graph *g, int rank, size_t trained) {
  return &g->reduce->slices[(size_t)rank * g->reduce->n_trained + trained];
}

sp_tensor sp_graph_slice_tensor(const sp_graph *g, size_t k, const sp_tensor *t) {
  if (!g->sliced) return *t;
  const sp_extent *s = sp_graph_slice_of(g, g->reduce->rank, k);
  return (sp_tensor){.spec = {.dtype = SP_F32, .ndim = 1, .shape = {s->n}}, .data = (float *)t->data + s->at};
}

/* ---- which they are ---- */
static const sp_bucket *find_bucket(const sp_reduce *x, const sp_weight_ref *r, size_t *at) {
  for (size_t i = 0; i < x->n; i++)
    for (size_t k = 0; k < x->buckets[i].n_gradients; k++)
      if (x->buckets[i].parts[k].node == r->node && x->buckets[i].parts[k].i == r->i) {
        *at = x->buckets[i].at[k];
        return &x->buckets[i];
      }
  return NULL;
}

static int64_t clamp(int64_t v, int64_t most) { return v < 0 ? 0 : v > most ? most : v; }

/* What of the weight lies in each piece. */
static int cut(sp_graph *g, const sp_weight_ref *r, size_t k, sp_err *err) {
  sp_reduce *x = g->reduce;
  size_t at = 0;
  const sp_bucket *b = find_bucket(x, r, &at);
  if (!b)
    return sp_fail(err, SP_E_INTERNAL, "weight '%s.%s' is in no bucket", r->node->name,
                   r->node->params.weights[r->i].name);
  int64_t count = sp_spec_count(&r->node->params.weights[r->i].spec), each = (int64_t)(b->each / sizeof(float));
  for (int rank = 0; rank < x->n_ranks; rank++) {
    int64_t first = rank * each - (int64_t)(at / sizeof(float));
    sp_extent *s = &x->slices[(size_t)rank * x->n_trained + k];
    s->at = clamp(first, count);
    s->n = clamp(first + each, count) - s->at;
    if (!s->n) s->at = 0;
  }
  return SP_OK;
}

static size_t blocks_of(const sp_graph *g, const sp_extent *s) {
  int64_t each = g->train.optimizer->update.slice;
  return (size_t)((s->n + each - 1) / each);
}

/* The sums of a rank are in the order of weights, and so are the blocks of one weight in that of ranks. */
static void order_sums(const sp_graph *g, size_t *made, uint32_t *to) {
  const sp_reduce *x = g->reduce;
  for (size_t k = 0; k < x->n_trained; k++)
    for (int rank = 0; rank < x->n_ranks; rank++)
      for (size_t n = blocks_of(g, sp_graph_slice_of(g, rank, k)); n; n--)
        *to++ = (uint32_t)((size_t)rank * x->sums + made[rank]++);
}

static void count_sums(const sp_graph *g, size_t *made) {
  sp_reduce *x = g->reduce;
  x->sums = 1;
  x->n_sums = 0;
  for (int rank = 0; rank < x->n_ranks; rank++) {
    for (size_t k = 0; k < x->n_trained; k++) made[rank] += blocks_of(g, sp_graph_slice_of(g, rank, k));
    x->n_sums += made[rank];
    if (made[rank] > x->sums) x->sums = made[rank];
    made[rank] = 0;
  }
}

static int place_sums(sp_graph *g, sp_err *err) {
  sp_reduce *x = g->reduce;
  size_t *made = sp_calloc((size_t)x->n_ranks, sizeof *made), bytes;
  uint32_t *order = NULL;
  int st = made ? SP_OK : sp_nomem(err, 64, "the order of sums");
  if (!st) count_sums(g, made);
  bytes = (size_t)x->n_sums * sizeof *order;
  if (!st && x->sums * (uint64_t)x->n_ranks > UINT32_MAX)
    st = sp_fail(err, SP_E_RANGE, "optimizer_shards: the weights are too many for %d ranks", x->n_ranks);
  if (!st && !(order = sp_calloc(1, bytes))) st = sp_nomem(err, bytes, "the order of sums");
  if (!st) order_sums(g, made, order);
  if (!st && !(x->sum_at = sp_graph_alloc(g, &g->main, bytes, "the order of sums", err))) st = err->status;
  if (!st) st = sp_place_upload(&g->main, x->sum_at, order, bytes, err);
  free(made);
  free(order);
  return st;
}

/* The optimizer as it is planned for this rank's slices has the weights that it has for the whole. */
static int check_planned(const sp_node *opt, const sp_plan *p, sp_err *err) {
  bool same = p->n_weights == opt->params.n_weights;
  for (size_t i = 0; same && i < opt->params.n_weights; i++) {
    const sp_weight *a = &opt->params.weights[i], *b = &p->weights[i];
    same = !strcmp(a->name, b->name) && a->of == b->of && (a->of || sp_spec_equal(&a->spec, &b->spec));
  }
  return same ? SP_OK : sp_fail(err, SP_E_INTERNAL, "optimizer '%s' has other weights for slices", opt->name);
}

static int plan_optimizer(sp_graph *g, sp_err *err) {
  sp_node *opt = g->train.optimizer;
  sp_plan p = {.training = 1, .slices = 1};
  size_t k = 0;
  for (sp_weight_ref r = {0}; sp_graph_next_trained(g, &r); k++)
    opt->in_specs[0].spec[k] = sp_graph_slice_tensor(g, k, &r.node->params.w[r.i]).spec;
  int st = sp_node_ask_plan(opt, &p, err);
  if (!st) st = check_planned(opt, &p, err);
  if (!st) opt->scratch = p.scratch_bytes;
  return st;
}

static int find_slices(sp_graph *g, sp_err *err) {
  sp_reduce *x = g->reduce;
  size_t k = 0;
  int st = SP_OK;
  x->n_trained = 0;
  for (sp_weight_ref r = {0}; sp_graph_next_trained(g, &r);) x->n_trained++;
  x->slices = sp_calloc(x->n_trained * (size_t)x->n_ranks + 1, sizeof *x->slices);
  if (!x->slices) return sp_nomem(err, x->n_trained * (size_t)x->n_ranks * sizeof *x->slices, "slices of weights");
  for (sp_weight_ref r = {0}; !st && sp_graph_next_trained(g, &r); k++) st = cut(g, &r, k, err);
  return st ? st : place_sums(g, err);
}

int sp_graph_slice(sp_graph *g, sp_err *err) {
  int st = g->reduce->slices ? SP_OK : find_slices(g, err);
  return st ? st : plan_optimizer(g, err);
}

void sp_reduce_free_slices(sp_graph *g) {
  sp_reduce *x = g->reduce;
  if (x->stream) g->main.type->stream_close(x->stream);
  if (x->sum_at) sp_place_free(&g->main, x->sum_at);
  free(x->slices);
  x->slices = NULL;
}

/* ---- from one to all, while no step is in flight ---- */
typedef struct gathering {
  const sp_reduce *x;
  char *to;
  size_t each;
  sp_err err;
} gathering;

static int run_gather(void *arg, void *native) {
  gathering *c = arg;
  sp_ctx_holder h;
  sp_ctx *ctx = sp_ctx_for(&h, "gather", &c->err);
  ctx->stream = native;
  sp_ranks_wait(c->x->ranks, true);
  int st = c->x->type->all_gather(ctx, c->x->comm, c->to, c->to + (size_t)c->x->rank * c->each, c->each);
  sp_ranks_wait(c->x->ranks, false);
  return st ? sp_reduce_failed(c->x, "gather", &c->err) : SP_OK;
}

static int open_stream(sp_graph *g, sp_err *err) {
  return g->reduce->stream ? SP_OK : sp_place_stream(&g->main, "gather", 0, &g->reduce->stream, err);
}

/* Each rank's piece is in its place. */
static int gather(sp_graph *g, char *to, size_t each, sp_err *err) {
  sp_reduce *x = g->reduce;
  gathering c = {.x = x, .to = to, .each = each};
  int st = sp_place_submit(&g->main, x->stream, run_gather, &c, "gather", err);
  if (!st) {
    sp_ranks_block(x->ranks, !sp_place_is_host(&g->main));
    st = sp_place_sync(&g->main, x->stream, "gather", err);
    sp_ranks_block(x->ranks, false);
  }
  if (st && c.err.status) *err = c.err;
  return st;
}

/* A rank that does not do the same is found out before anybody waits for it. */
static int agree(const sp_graph *g, const char *what, sp_err *err) {
  const sp_rank_text text = {"what they give each other (do all of them save, evaluate and read weights?)", what};
  return sp_ranks_same(g->reduce->ranks, &text, 1, err);
}

int sp_slices_spread(sp_graph *g, sp_err *err) {
  const sp_reduce *x = g->reduce;
  int st = agree(g, "weights", err);
  if (!st) st = open_stream(g, err);
  for (size_t i = 0; i < x->n && !st; i++)
    if (x->buckets[i].weights) st = gather(g, x->buckets[i].weights, x->buckets[i].each, err);
  return st;
}

static size_t part_of(const sp_extent *s, size_t at, size_t most) {
  size_t bytes = (size_t)s->n * sizeof(float);
  return at >= bytes ? 0 : bytes - at < most ? bytes - at : most;
}

/* So much of all slices at a time as there is room for. */
static int gather_part(sp_node *n, size_t i, size_t at, size_t each, char *whole, sp_err *err) {
  sp_graph *g = n->g;
  sp_reduce *x = g->reduce;
  size_t k = n->params.weights[i].of - 1;
  size_t own = part_of(sp_graph_slice_of(g, x->rank, k), at, each);
  char *to = x->pieces + (size_t)x->rank * each, *from = (char *)n->params.w[i].data + at;
  int st = own ? sp_place_copy(&g->main, x->stream, to, from, own, "gather", err) : SP_OK;
  if (!st) st = gather(g, x->pieces, each, err);
  for (int rank = 0; rank < x->n_ranks && !st; rank++) {
    const sp_extent *s = sp_graph_slice_of(g, rank, k);
    size_t bytes = part_of(s, at, each);
    if (bytes)
      st = sp_place_download(&g->main, whole + (size_t)s->at * sizeof(float) + at, x->pieces + (size_t)rank * each,
                             bytes, err);
  }
  return st;
}

int sp_slices_gather(sp_node *n, size_t i, void **whole, sp_err *err) {
  sp_graph *g = n->g;
  const sp_reduce *x = g->reduce;
  size_t bytes = (size_t)sp_spec_bytes(&n->params.weights[i].spec), each = x->room / (size_t)x->n_ranks / 256 * 256,
         most = 0;
  for (int rank = 0; rank < x->n_ranks; rank++) {
    size_t one = part_of(sp_graph_slice_of(g, rank, n->params.weights[i].of - 1), 0, SIZE_MAX);
    if (one > most) most = one;
  }
  int st = agree(g, n->params.weights[i].name, err);
  if (!st) st = open_stream(g, err);
  if (!(*whole = sp_calloc(1, bytes + 1))) return sp_nomem(err, bytes, n->params.weights[i].name);
  for (size_t at = 0; at < most && !st; at += each) {
    if (most - at < each) each = (most - at + 255) / 256 * 256;
    st = gather_part(n, i, at, each, *whole, err);
  }
  return st;
}
