/* SPDX-License-Identifier: MIT
 * slices.c - each rank has a slice of every trained weight: what of it lies in its piece of the weight's bucket. That
 * it updates, and of that alone it keeps what the optimizer keeps. */
#include "params/params.h"

#include <stdlib.h>
#include <string.h>

/* ---- which they are ---- */
static const sp_bucket *find_bucket(const sp_reduce *x, const sp_weight_ref *r, size_t *at) {
  for (size_t i = 0; i < x->n; i++)
    for (size_t k = 0; k < x->buckets[i].n_gradients; k++)
      if (x->buckets[i].parts[k].of == r->of && x->buckets[i].parts[k].i == r->i) {
        *at = x->buckets[i].at[k];
        return &x->buckets[i];
      }
  return NULL;
}

static int64_t clamp(int64_t v, int64_t most) { return v < 0 ? 0 : v > most ? most : v; }

/* What of the weight lies in each piece. */
static int cut(sp_store *store, const sp_weight_ref *r, size_t k, sp_err *err) {
  sp_reduce *x = store->reduce;
  size_t at = 0;
  const sp_bucket *b = find_bucket(x, r, &at);
  if (!b) return sp_fail(err, SP_E_INTERNAL, "weight '%s.%s' is in no bucket", r->of->name, r->of->weights[r->i].name);
  int64_t count = sp_spec_count(&r->of->weights[r->i].spec), each = (int64_t)(b->each / sizeof(float));
  for (int rank = 0; rank < x->n_ranks; rank++) {
    int64_t first = rank * each - (int64_t)(at / sizeof(float));
    sp_extent *s = &x->slices[(size_t)rank * x->n_trained + k];
    s->at = clamp(first, count);
    s->n = clamp(first + each, count) - s->at;
    if (!s->n) s->at = 0;
  }
  return SP_OK;
}

static size_t blocks_of(const sp_store *store, const sp_extent *s) {
  int64_t each = store->optimizer->update.slice;
  return (size_t)((s->n + each - 1) / each);
}

/* The sums of a rank are in the order of weights, and so are the blocks of one weight in that of ranks. */
static void order_sums(const sp_store *store, size_t *made, uint32_t *to) {
  const sp_reduce *x = store->reduce;
  for (size_t k = 0; k < x->n_trained; k++)
    for (int rank = 0; rank < x->n_ranks; rank++)
      for (size_t n = blocks_of(store, sp_store_slice_of(store, rank, k)); n; n--)
        *to++ = (uint32_t)((size_t)rank * x->sums + made[rank]++);
}

static void count_sums(const sp_store *store, size_t *made) {
  sp_reduce *x = store->reduce;
  x->sums = 1;
  x->n_sums = 0;
  for (int rank = 0; rank < x->n_ranks; rank++) {
    for (size_t k = 0; k < x->n_trained; k++) made[rank] += blocks_of(store, sp_store_slice_of(store, rank, k));
    x->n_sums += made[rank];
    if (made[rank] > x->sums) x->sums = made[rank];
    made[rank] = 0;
  }
}

static int place_sums(sp_store *store, sp_err *err) {
  sp_reduce *x = store->reduce;
  size_t *made = sp_calloc((size_t)x->n_ranks, sizeof *made), bytes;
  uint32_t *order = NULL;
  int status = made ? SP_OK : sp_nomem(err, 64, "the order of sums");
  if (!status) count_sums(store, made);
  bytes = (size_t)x->n_sums * sizeof *order;
  if (!status && x->sums * (uint64_t)x->n_ranks > UINT32_MAX)
    status = sp_fail(err, SP_E_RANGE, "optimizer_shards: the weights are too many for %d ranks", x->n_ranks);
  if (!status && !(order = sp_calloc(1, bytes))) status = sp_nomem(err, bytes, "the order of sums");
  if (!status) order_sums(store, made, order);
  if (!status && !(x->sum_at = sp_store_alloc(store, store->main, bytes, "the order of sums", err)))
    status = err->status;
  if (!status) status = sp_place_upload(store->main, x->sum_at, order, bytes, err);
  free(made);
  free(order);
  return status;
}

static int find_slices(sp_store *store, sp_err *err) {
  sp_reduce *x = store->reduce;
  size_t k = 0;
  int status = SP_OK;
  x->n_trained = 0;
  for (sp_weight_ref r = {0}; sp_store_next_trained(store, &r);) x->n_trained++;
  x->slices = sp_calloc(x->n_trained * (size_t)x->n_ranks + 1, sizeof *x->slices);
  if (!x->slices) return sp_nomem(err, x->n_trained * (size_t)x->n_ranks * sizeof *x->slices, "slices of weights");
  for (sp_weight_ref r = {0}; !status && sp_store_next_trained(store, &r); k++) status = cut(store, &r, k, err);
  return status ? status : place_sums(store, err);
}

int sp_store_find_slices(sp_store *store, sp_err *err) {
  return store->reduce->slices ? SP_OK : find_slices(store, err);
}

void sp_store_free_slices(sp_store *store) {
  sp_reduce *x = store->reduce;
  if (x->stream) store->main->type->stream_close(x->stream);
  if (x->sum_at) sp_place_free(store->main, x->sum_at);
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
  int status = c->x->type->all_gather(ctx, c->x->comm, c->to, c->to + (size_t)c->x->rank * c->each, c->each);
  sp_ranks_wait(c->x->ranks, false);
  return status ? sp_reduce_failed(c->x, "gather", &c->err) : SP_OK;
}

static int open_stream(sp_store *store, sp_err *err) {
  return store->reduce->stream ? SP_OK : sp_place_stream(store->main, "gather", 0, &store->reduce->stream, err);
}

/* Each rank's piece is in its place. */
static int gather(sp_store *store, char *to, size_t each, sp_err *err) {
  sp_reduce *x = store->reduce;
  gathering c = {.x = x, .to = to, .each = each};
  int status = sp_place_submit(store->main, x->stream, run_gather, &c, "gather", err);
  if (!status) {
    sp_ranks_block(x->ranks, !sp_place_is_host(store->main));
    status = sp_place_sync(store->main, x->stream, "gather", err);
    sp_ranks_block(x->ranks, false);
  }
  if (status && c.err.status) *err = c.err;
  return status;
}

/* A rank that does not do the same is found out before anybody waits for it. */
static int agree(const sp_store *store, const char *what, sp_err *err) {
  const sp_rank_text text = {"what they give each other (do all of them save, evaluate and read weights?)", what};
  return sp_ranks_same(store->reduce->ranks, &text, 1, err);
}

int sp_slices_spread(sp_store *store, sp_err *err) {
  const sp_reduce *x = store->reduce;
  int status = agree(store, "weights", err);
  if (!status) status = open_stream(store, err);
  for (size_t i = 0; i < x->n && !status; i++)
    if (x->buckets[i].weights) status = gather(store, x->buckets[i].weights, x->buckets[i].each, err);
  return status;
}

static size_t part_of(const sp_extent *s, size_t at, size_t most) {
  size_t bytes = (size_t)s->n * sizeof(float);
  return at >= bytes ? 0 : bytes - at < most ? bytes - at : most;
}

/* So much of all slices at a time as there is room for. */
static int gather_part(sp_weights *stage, size_t i, size_t at, size_t each, char *whole, sp_err *err) {
  sp_store *store = stage->store;
  sp_reduce *x = store->reduce;
  size_t k = stage->weights[i].of - 1;
  size_t own = part_of(sp_store_slice_of(store, x->rank, k), at, each);
  char *to = x->pieces + (size_t)x->rank * each, *from = (char *)stage->w[i].data + at;
  int status = own ? sp_place_copy(store->main, x->stream, to, from, own, "gather", err) : SP_OK;
  if (!status) status = gather(store, x->pieces, each, err);
  for (int rank = 0; rank < x->n_ranks && !status; rank++) {
    const sp_extent *s = sp_store_slice_of(store, rank, k);
    size_t bytes = part_of(s, at, each);
    if (bytes)
      status = sp_place_download(store->main, whole + (size_t)s->at * sizeof(float) + at,
                                 x->pieces + (size_t)rank * each, bytes, err);
  }
  return status;
}

int sp_slices_gather(sp_weights *stage, size_t i, void **whole, sp_err *err) {
  sp_store *store = stage->store;
  const sp_reduce *x = store->reduce;
  size_t bytes = (size_t)sp_spec_bytes(&stage->weights[i].spec), each = x->room / (size_t)x->n_ranks / 256 * 256,
         most = 0;
  for (int rank = 0; rank < x->n_ranks; rank++) {
    size_t one = part_of(sp_store_slice_of(store, rank, stage->weights[i].of - 1), 0, SIZE_MAX);
    if (one > most) most = one;
  }
  int status = agree(store, stage->weights[i].name, err);
  if (!status) status = open_stream(store, err);
  if (!(*whole = sp_calloc(1, bytes + 1))) return sp_nomem(err, bytes, stage->weights[i].name);
  for (size_t at = 0; at < most && !status; at += each) {
    if (most - at < each) each = (most - at + 255) / 256 * 256;
    status = gather_part(stage, i, at, each, *whole, err);
  }
  return status;
}
