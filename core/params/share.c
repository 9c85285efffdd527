/* SPDX-License-Identifier: MIT
 * share.c - weights that are the same on all ranks: given by rank 0, and compared. */
#include "params/params.h"

#include <inttypes.h>
#include <stdlib.h>

static bool is_shared(const sp_store *store) { return store->optimizer && sp_ranks_opts(store->env->ranks)->ranks > 1; }

/* What ranks have slices of goes to all where rank 0 was given it. */
static int is_given(sp_weights *stage, size_t i, uint8_t *given, sp_err *err) {
  *given = !sp_weights_sliced(stage, i) || (stage->whole && stage->whole[i]);
  return sp_weights_sliced(stage, i) ? sp_ranks_broadcast(stage->store->env->ranks, given, sizeof *given, err) : SP_OK;
}

static int share_weight(sp_weights *stage, size_t i, sp_err *err) {
  size_t bytes = (size_t)sp_spec_bytes(&stage->weights[i].spec);
  bool first = sp_ranks_opts(stage->store->env->ranks)->rank == 0;
  const void *data = NULL;
  void *copy = NULL;
  uint8_t given;
  int status = is_given(stage, i, &given, err);
  if (status || !given) return status;
  if (first) status = sp_weights_get(stage, i, &data, &copy, err);
  if (!first && !(copy = sp_calloc(1, bytes ? bytes : 1))) status = sp_nomem(err, bytes, stage->weights[i].name);
  if (!status) status = sp_ranks_broadcast(stage->store->env->ranks, first ? (void *)data : copy, bytes, err);
  if (!status && !first) status = sp_weights_put(stage, i, copy, err);
  free(copy);
  if (stage->whole) free(stage->whole[i]), stage->whole[i] = NULL;
  return status;
}

int sp_store_share(sp_store *store, const sp_weights *only, sp_err *err) {
  int status = SP_OK;
  for (size_t k = 0; is_shared(store) && k < store->n_stages && !status; k++) {
    sp_weights *stage = store->stages[k];
    if (only && stage != only && !(stage->optimizer && store->optimizer->update.averages)) continue;
    for (size_t i = 0; i < stage->n_weights && !status; i++) status = share_weight(stage, i, err);
  }
  return status;
}

/* On the device: to copy all weights of the reference networks to the host and to hash them there took 0.4 s. */
static int hash_weight(sp_weights *stage, size_t i, uint64_t *hash, sp_err *err) {
  const sp_weight *w = &stage->weights[i];
  if (!stage->w[i].data) return sp_weights_no_memory(stage, i, err);
  return sp_place_checksum(stage->place, stage->w[i].data, (size_t)sp_spec_bytes(&w->spec), w->name, hash, err);
}

/* Of what ranks have that of most of them, of the first where as many have another one. */
static int most_have(const uint64_t *all, size_t n, int ranks) {
  int most = 0, best = 0;
  for (int r = 0; r < ranks; r++) {
    int have = 0;
    for (int k = 0; k < ranks; k++) have += all[(size_t)k * n] == all[(size_t)r * n];
    if (have > best) most = r, best = have;
  }
  return most;
}

/* A rank that has another weight than most, in words; -1: there is none. */
static int differ(const sp_store *store, const uint64_t *all, size_t n, uint64_t step, sp_err *err) {
  int ranks = sp_ranks_opts(store->env->ranks)->ranks;
  size_t at = 0;
  for (size_t k = 0; k < store->n_stages; k++)
    for (size_t i = 0; i < store->stages[k]->n_weights; i++, at++)
      for (int r = 1; r < ranks; r++) {
        if (all[(size_t)r * n + at] == all[at]) continue;
        int most = most_have(all + at, n, ranks), guilty = most ? 0 : r;
        sp_fail(err, SP_E_DATA,
                "weight '%s.%s' is not the same on rank %d as on rank %d before step %" PRIu64
                ": memory is damaged, or a stage does not compute the same twice",
                store->stages[k]->name, store->stages[k]->weights[i].name, guilty, most, sp_step_said(step));
        return guilty;
      }
  return -1;
}

int sp_store_compare(sp_store *store, uint64_t step, int *guilty, sp_err *err) {
  size_t n = 0, at = 0, ranks = (size_t)sp_ranks_opts(store->env->ranks)->ranks;
  int status = SP_OK;
  *guilty = -1;
  if (!is_shared(store)) return SP_OK;
  for (size_t k = 0; k < store->n_stages; k++) n += store->stages[k]->n_weights;
  uint64_t *mine = sp_calloc(n + 1, sizeof *mine), *all = sp_calloc(ranks * n + 1, sizeof *all);
  if (!mine || !all) status = sp_nomem(err, ranks * n * sizeof *all, "hashes of weights");
  for (size_t k = 0; k < store->n_stages && !status; k++)
    for (size_t i = 0; i < store->stages[k]->n_weights && !status; i++, at++)
      if (!sp_weights_sliced(store->stages[k], i)) status = hash_weight(store->stages[k], i, &mine[at], err);
  if (!status) status = sp_ranks_exchange(store->env->ranks, mine, n * sizeof *mine, all, err);
  if (!status) *guilty = differ(store, all, n, step, err);
  free(mine);
  free(all);
  return *guilty >= 0 ? err->status : status;
}
