/* SPDX-License-Identifier: MIT
 * store.c - the store as a whole: whose parameters are in it, memory that is counted, and what may be asked of them.
 * The other files of this folder stand on this one, which calls none of them. */
#include "params/params.h"

#include <stdio.h>
#include <string.h>

int sp_store_add(sp_store *store, sp_weights *stage, sp_err *err) {
  if (!sp_grow(&store->stages, &store->cap_stages, store->n_stages + 1, sizeof *store->stages))
    return sp_nomem(err, 64, "the parameters of a stage");
  store->stages[store->n_stages++] = stage;
  return SP_OK;
}

/* ---- memory ---- */
void *sp_store_zalloc(sp_store *store, size_t n, size_t size, const char *what, sp_err *err) {
  void *p = sp_calloc(n ? n : 1, size);
  if (!p) sp_nomem(err, n * size, what);
  store->allocations++;
  return p;
}

void *sp_store_alloc(sp_store *store, const sp_place *place, size_t bytes, const char *what, sp_err *err) {
  void *p;
  if (sp_place_alloc(place, bytes, what, &p, err)) {
    if (err->status == SP_E_NOMEM && place == store->main && store->border) {
      size_t len = strlen(err->msg);
      snprintf(err->msg + len, sizeof err->msg - len, "; take a smaller --batch or --depth");
    }
    return NULL;
  }
  store->allocations++;
  return p;
}

/* ---- which weights are which ---- */
bool sp_weights_have(const sp_weights *stage, uint32_t flag) {
  for (size_t i = 0; i < stage->n_weights; i++)
    if (stage->weights[i].flags & flag) return true;
  return false;
}

bool sp_weights_is_trained(const sp_weights *stage, size_t i) {
  return stage->weights[i].flags & SP_WEIGHT_TRAINED && !stage->fixed[i];
}

bool sp_weights_are_trained(const sp_weights *stage) {
  for (size_t i = 0; i < stage->n_weights; i++)
    if (sp_weights_is_trained(stage, i)) return true;
  return false;
}

bool sp_weights_any_fixed(const sp_weights *stage) {
  for (size_t i = 0; i < stage->n_weights; i++)
    if (stage->fixed[i]) return true;
  return false;
}

bool sp_weights_has_dw(const sp_weights *stage, size_t i) {
  return stage->trained && !stage->inplace && sp_weights_is_trained(stage, i) &&
         !(stage->store->applied && stage->weights[i].flags & SP_WEIGHT_FACTORS);
}

bool sp_weights_sums(const sp_weights *stage, size_t i) {
  return sp_weights_has_dw(stage, i) && !(stage->weights[i].flags & SP_WEIGHT_FACTORS);
}

static bool is_statistic(const sp_weights *stage, size_t i) {
  return stage->store->optimizer && stage->keeps_statistics && stage->weights[i].flags & SP_WEIGHT_STATE;
}

static bool next_weight(const sp_store *store, sp_weight_ref *at, bool (*wanted)(const sp_weights *, size_t)) {
  size_t stage = at->of ? at->of->index : 0, i = at->of ? at->i + 1 : 0;
  for (; stage < store->n_stages; stage++, i = 0)
    for (; i < store->stages[stage]->n_weights; i++)
      if (wanted(store->stages[stage], i)) {
        *at = (sp_weight_ref){store->stages[stage], i};
        return true;
      }
  return false;
}

bool sp_store_next_trained(const sp_store *store, sp_weight_ref *at) {
  return next_weight(store, at, sp_weights_has_dw);
}

bool sp_store_next_summed(const sp_store *store, sp_weight_ref *at) { return next_weight(store, at, sp_weights_sums); }

bool sp_store_next_statistic(const sp_store *store, sp_weight_ref *at) { return next_weight(store, at, is_statistic); }

bool sp_store_has_factors(const sp_store *store) {
  for (size_t i = 0; i < store->n_stages; i++)
    if (store->stages[i]->n_factors) return true;
  return false;
}

/* ---- what the optimizer keeps ---- */
bool sp_store_restores(const sp_store *store) { return store->optimizer && store->optimizer->update.restores; }

bool sp_store_averages(const sp_store *store) { return store->optimizer && store->optimizer->update.averages; }

long sp_store_average_of(const sp_store *store, const sp_weights *stage, size_t i) {
  if (!sp_store_averages(store)) return -1;
  long at = (long)store->optimizer->update.averages - 1;
  for (sp_weight_ref r = {0}; sp_store_next_trained(store, &r); at++)
    if (r.of == stage && r.i == i) return at;
  return -1;
}

/* ---- of several ranks ---- */
bool sp_store_writes(const sp_store *store) { return sp_ranks_opts(store->env->ranks)->rank == 0 || !store->optimizer; }

bool sp_weights_sliced(const sp_weights *stage, size_t i) {
  return stage->store->sliced && stage == stage->store->optimizer && stage->weights[i].of;
}

const sp_extent *sp_store_slice_of(const sp_store *store, int rank, size_t trained) {
  return &store->reduce->slices[(size_t)rank * store->reduce->n_trained + trained];
}

sp_tensor sp_store_slice_tensor(const sp_store *store, size_t k, const sp_tensor *t) {
  if (!store->sliced) return *t;
  const sp_extent *s = sp_store_slice_of(store, store->reduce->rank, k);
  return (sp_tensor){.spec = {.dtype = SP_F32, .ndim = 1, .shape = {s->n}}, .data = (float *)t->data + s->at};
}

bool sp_reduce_owns(const sp_store *store, const void *data) {
  const sp_reduce *x = store->reduce;
  const char *at = data;
  return x && x->memory && at >= x->memory && at < x->memory + x->bytes;
}

uint64_t sp_reduce_bytes(const sp_store *store) {
  size_t room = store->reduce ? store->reduce->room : 0;
  return store->half ? room + room / 2 : room;
}
