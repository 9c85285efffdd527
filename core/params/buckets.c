/* SPDX-License-Identifier: MIT
 * buckets.c - the memory that gradients and statistics lie in, so that ranks add what lies together in one call. */
#include "params/params.h"

#include <stdlib.h>

enum { ALIGN = 256, BLOCK = 4096 }; /* of a tensor in its bucket, and of a piece; of a bucket */

static size_t rounded(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* Slices begin where pieces do, and where the optimizer wants them to. */
static size_t unit_of(const sp_store *store, const sp_bucket *b) {
  size_t unit = store->sliced && b->n_gradients ? store->optimizer->update.slice * sizeof(float) : ALIGN;
  while (unit % ALIGN) unit *= 2; /* which is a power of two */
  return unit;
}

static size_t bytes_of(const sp_weight_ref *r) {
  return rounded((size_t)sp_spec_bytes(&r->of->weights[r->i].spec), ALIGN);
}

/* ---- buckets ---- */
static int add_part(sp_reduce *x, const sp_weight_ref *r, bool gradient, sp_err *err) {
  sp_bucket *b = &x->buckets[x->n - 1];
  if (!sp_grow(&b->parts, &b->cap, b->n + 1, sizeof *b->parts)) return sp_nomem(err, 64, "buckets");
  b->parts[b->n++] = *r;
  b->bytes += bytes_of(r);
  if (gradient) b->n_gradients = b->n;
  return SP_OK;
}

static int new_bucket(sp_reduce *x, sp_err *err) {
  if (!sp_grow(&x->buckets, &x->cap, x->n + 1, sizeof *x->buckets)) return sp_nomem(err, 64, "buckets");
  x->buckets[x->n++] = (sp_bucket){0};
  return SP_OK;
}

/* From the end of the network, whose gradients come first. What is one weight is never in two buckets. */
static int fill_gradients(sp_store *store, sp_reduce *x, bool factors, sp_err *err) {
  size_t most = store->bucket, n = 0;
  sp_weight_ref *all = NULL;
  for (sp_weight_ref r = {0}; sp_store_next_trained(store, &r);) n += sp_weights_sums(r.of, r.i) != factors;
  if (!(all = sp_calloc(n + 1, sizeof *all))) return sp_nomem(err, n * sizeof *all, "buckets");
  size_t k = n;
  for (sp_weight_ref r = {0}; sp_store_next_trained(store, &r);)
    if (sp_weights_sums(r.of, r.i) != factors) all[--k] = r;
  int status = new_bucket(x, err);
  for (k = 0; k < n && !status; k++) {
    const sp_bucket *b = &x->buckets[x->n - 1];
    if (b->n && b->bytes + bytes_of(&all[k]) > most) status = new_bucket(x, err);
    if (!status) status = add_part(x, &all[k], true, err);
    x->buckets[x->n - 1].factors = factors;
  }
  free(all);
  return status;
}

static void drop_empty(sp_reduce *x) {
  if (x->n && !x->buckets[x->n - 1].n) x->n--;
}

static int fill_buckets(sp_store *store, sp_reduce *x, sp_err *err) {
  int status = fill_gradients(store, x, false, err);
  bool alone = store->half || store->sliced; /* statistics go as they are, and all ranks want them */
  if (!status && alone && x->buckets[x->n - 1].n) status = new_bucket(x, err);
  for (int counts = 0; counts < 2 && !status; counts++)
    for (sp_weight_ref r = {0}; !status && sp_store_next_statistic(store, &r);) {
      if ((r.of->weights[r.i].spec.dtype != SP_F32) != counts) continue;
      if (counts && !x->buckets[x->n - 1].counts && !(status = new_bucket(x, err))) x->buckets[x->n - 1].counts = true;
      if (!status) status = add_part(x, &r, false, err);
    }
  if (!status) drop_empty(x); /* all gradients are made of factors */
  if (!status && store->sliced && !(status = fill_gradients(store, x, true, err))) drop_empty(x);
  return status;
}

/* Where parts lie if a piece has so many bytes; the end of all. What lies in several pieces begins at a unit,
 * as they do. */
static size_t lay(const sp_bucket *b, size_t each, size_t unit) {
  size_t end = 0;
  for (size_t i = 0; i < b->n; i++) {
    size_t bytes = bytes_of(&b->parts[i]);
    bool split = end / each != (end + bytes - 1) / each;
    b->at[i] = split && i < b->n_gradients ? rounded(end, unit) : end;
    end = b->at[i] + bytes;
  }
  return end;
}

static int lay_out(const sp_store *store, const sp_reduce *x, sp_bucket *b, sp_err *err) {
  size_t unit = unit_of(store, b), n = (size_t)x->n_ranks;
  if (!(b->at = sp_calloc(b->n + 1, sizeof *b->at))) return sp_nomem(err, b->n * sizeof *b->at, "buckets");
  b->each = rounded((b->bytes + n - 1) / n, unit);
  while (b->n && lay(b, b->each, unit) > n * b->each) b->each += unit;
  b->bytes = n * b->each;
  if (b->n_gradients) b->gradients = b->at[b->n_gradients - 1] + bytes_of(&b->parts[b->n_gradients - 1]);
  return SP_OK;
}

/* ---- the whole ---- */
/* The part's weight lies in the bucket: a statistic, or beside its gradient. */
static bool has_weight(const sp_store *store, const sp_bucket *b, size_t i) {
  return i >= b->n_gradients || store->sliced;
}

/* Makes room for the bucket: memory of gradients that was elsewhere is freed,
 * and what a file gave comes to the host. */
static int lift(sp_store *store, sp_bucket *b, sp_err *err) {
  const void *data;
  int status = SP_OK;
  if (!(b->given = sp_calloc(b->n + 1, sizeof *b->given))) return sp_nomem(err, b->n * sizeof *b->given, "buckets");
  for (size_t i = 0; i < b->n && !status; i++) {
    const sp_weight_ref *r = &b->parts[i];
    if ((status = sp_weights_lists(r->of, err))) break;
    sp_tensor *w = &r->of->w[r->i], *dw = &r->of->dw[r->i];
    if (i < b->n_gradients && !b->factors) sp_place_free(store->main, dw->data), dw->data = NULL;
    if (!has_weight(store, b, i) || !w->data || sp_place_is_host(store->main)) continue;
    status = sp_weights_get(r->of, r->i, &data, &b->given[i], err);
    sp_place_free(store->main, w->data);
    w->data = NULL;
  }
  return status;
}

/* A weight goes there, with what a file gave. */
static int place_weight(sp_store *store, const sp_weight_ref *r, char *to, const void *given, sp_err *err) {
  sp_tensor *t = &r->of->w[r->i];
  void *old = t->data;
  const void *from = given ? given : old;
  t->data = to;
  int status = from ? sp_weights_put(r->of, r->i, from, err) : SP_OK;
  sp_place_free(store->main, old);
  return status;
}

static int place(sp_store *store, sp_bucket *b, sp_err *err) {
  int status = SP_OK;
  for (size_t i = 0; i < b->n && !status; i++) {
    const sp_weight_ref *r = &b->parts[i];
    char *weights = i < b->n_gradients ? b->weights : b->memory;
    if (has_weight(store, b, i)) status = place_weight(store, r, weights + b->at[i], b->given[i], err);
    if (i < b->n_gradients && b->memory) r->of->dw[r->i].data = b->memory + b->at[i];
    free(b->given[i]);
    b->given[i] = NULL;
  }
  return status;
}

/* Lays out the bucket, and adds what it takes. */
static int measure(const sp_store *store, sp_reduce *x, sp_bucket *b, sp_err *err) {
  int status = lay_out(store, x, b, err);
  if (status) return status;
  if (!b->factors) x->bytes += rounded(b->bytes, BLOCK);
  if (store->sliced && b->n_gradients) x->bytes += rounded(b->bytes, BLOCK);
  if (b->bytes > x->room && !b->factors) x->room = b->bytes;
  return SP_OK;
}

static char *cut(char **rest, size_t bytes) {
  char *here = *rest;
  *rest += rounded(bytes, BLOCK);
  return here;
}

/* All buckets lie in one block: a communicator's memory may come in pieces of 2 MiB,
 * and a window of all ranks takes long. */
static int make_buckets(sp_store *store, sp_reduce *x, sp_err *err) {
  int status = SP_OK;
  for (size_t i = 0; i < x->n && !status; i++) status = measure(store, x, &x->buckets[i], err);
  for (size_t i = 0; i < x->n && !status; i++) status = lift(store, &x->buckets[i], err);
  if (!status && x->bytes) status = sp_reduce_take(x, x->bytes, &x->memory, err);
  char *rest = x->memory;
  for (size_t i = 0; i < x->n && !status; i++) {
    sp_bucket *b = &x->buckets[i];
    if (!b->factors) b->memory = cut(&rest, b->bytes);
    if (store->sliced && b->n_gradients) b->weights = cut(&rest, b->bytes);
    status = place(store, b, err);
  }
  return status;
}

static int make_memory(sp_store *store, sp_reduce *x, sp_err *err) {
  if (store->sliced) x->room = (size_t)x->n_ranks << 12; /* sp_slices_gather() has it, too */
  int status = make_buckets(store, x, err);
  if (!status) status = sp_reduce_take(x, x->room, &x->pieces, err);
  if (!status && store->half) status = sp_reduce_take(x, x->room / 2, &x->wire, err);
  return status || !store->sliced ? status : sp_store_find_slices(store, err);
}

void sp_reduce_free(sp_store *store) {
  sp_reduce *x = store->reduce;
  if (!x) return;
  if (x->comm) sp_ranks_remove_abort(x->ranks, &x->abort);
  for (size_t i = 0; i < x->n; i++) {
    for (size_t k = 0; x->buckets[i].given && k < x->buckets[i].n; k++) free(x->buckets[i].given[k]);
    free(x->buckets[i].given);
    free(x->buckets[i].parts);
    free(x->buckets[i].at);
  }
  sp_store_free_slices(store);
  if (x->memory) x->type->free(x->comm, x->memory);
  if (x->pieces) x->type->free(x->comm, x->pieces);
  if (x->wire) x->type->free(x->comm, x->wire);
  if (x->comm) x->type->close(x->comm);
  free(x->buckets);
  free(x);
  store->reduce = NULL;
}

int sp_store_reduce(sp_store *store, sp_err *err) {
  const sp_rank_opts *o = sp_ranks_opts(store->env->ranks);
  if (store->reduce && store->reduce->failure.status) return *err = store->reduce->failure, err->status;
  if (store->reduce || o->ranks == 1 || !store->optimizer) return SP_OK;
  sp_reduce *x = store->reduce = sp_calloc(1, sizeof *x);
  if (!x) return sp_nomem(err, sizeof *x, "a reduction");
  *x = (sp_reduce){.ranks = store->env->ranks, .rank = o->rank, .n_ranks = o->ranks};
  int status = fill_buckets(store, x, err);
  if (!status) status = sp_reduce_open(store, x, err);
  if (status) {
    sp_reduce_free(store); /* nothing has a place in it yet */
    return status;
  }
  if ((status = make_memory(store, x, err))) x->failure = *err;
  return status;
}

void sp_store_free(sp_store *store) {
  sp_reduce_free(store);
  free(store->stages);
}
