/* SPDX-License-Identifier: MIT
 * memory.c - the memory that weights, their gradients and constants lie in, and what goes in and out of it. */
#include "params/params.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sp_weights_drop(sp_weights *stage) {
  const sp_place *place = stage->place;
  for (size_t i = 0; i < stage->n_weights; i++) {
    if (stage->w && !sp_reduce_owns(stage->store, stage->w[i].data)) sp_place_free(place, stage->w[i].data);
    if (stage->dw && !sp_reduce_owns(stage->store, stage->dw[i].data)) sp_place_free(place, stage->dw[i].data);
    if (stage->weights) free((char *)stage->weights[i].name);
    if (stage->whole) free(stage->whole[i]);
  }
  free(stage->whole);
  stage->whole = NULL;
  sp_place_free(place, stage->consts);
  free(stage->weights);
  free(stage->w);
  free(stage->dw);
  free(stage->loaded);
  free(stage->fixed);
  stage->weights = NULL;
  stage->w = stage->dw = NULL;
  stage->loaded = NULL;
  stage->fixed = NULL;
  stage->consts = NULL;
  stage->n_weights = 0;
}

int sp_weights_lists(sp_weights *stage, sp_err *err) {
  sp_store *store = stage->store;
  if (!stage->w && !(stage->w = sp_store_zalloc(store, stage->n_weights, sizeof *stage->w, "weights", err)))
    return err->status;
  if (!stage->dw && !(stage->dw = sp_store_zalloc(store, stage->n_weights, sizeof *stage->dw, "weights", err)))
    return err->status;
  if (!stage->loaded &&
      !(stage->loaded = sp_store_zalloc(store, stage->n_weights, sizeof *stage->loaded, "weights", err)))
    return err->status;
  for (size_t i = 0; i < stage->n_weights; i++) stage->w[i].spec = stage->dw[i].spec = stage->weights[i].spec;
  return SP_OK;
}

uint64_t sp_weights_bytes(const sp_weights *stage, size_t i) {
  const sp_store *store = stage->store;
  uint64_t bytes = (uint64_t)sp_spec_bytes(&stage->weights[i].spec);
  if (!sp_weights_sliced(stage, i)) return bytes;
  if (!store->reduce || !store->reduce->slices) return bytes / (uint64_t)sp_ranks_opts(store->env->ranks)->ranks;
  return (uint64_t)sp_store_slice_of(store, store->reduce->rank, stage->weights[i].of - 1)->n * sizeof(float);
}

/* How much of one that ranks have slices of is this one's is known later. */
static int weight_storage(sp_weights *stage, size_t i, sp_err *err) {
  bool sliced = sp_weights_sliced(stage, i);
  if (stage->w[i].data || (sliced && !stage->store->reduce)) return SP_OK;
  size_t bytes = (size_t)sp_weights_bytes(stage, i);
  stage->w[i].data = sp_store_alloc(stage->store, stage->place, bytes ? bytes : 1, stage->weights[i].name, err);
  if (!stage->w[i].data) return sp_prefix(err, "stage '%s'", stage->name);
  stage->empty = true;
  return sliced && stage->whole && stage->whole[i] ? sp_weights_put(stage, i, stage->whole[i], err) : SP_OK;
}

int sp_weights_storage(sp_weights *stage, sp_err *err) {
  sp_store *store = stage->store;
  int status = stage->n_weights ? sp_weights_lists(stage, err) : SP_OK;
  for (size_t i = 0; i < stage->n_weights && !status; i++) {
    const sp_spec *s = &stage->weights[i].spec;
    if ((status = weight_storage(stage, i, err))) return status;
    if (!stage->dw[i].data && sp_weights_has_dw(stage, i) &&
        !(stage->dw[i].data =
              sp_store_alloc(store, stage->place, (size_t)sp_spec_bytes(s), stage->weights[i].name, err)))
      return sp_prefix(err, "stage '%s': gradient", stage->name);
  }
  stage->stale = true;
  if (!status && !stage->consts && stage->const_bytes &&
      !(stage->consts = sp_store_alloc(store, stage->place, stage->const_bytes, "constants", err)))
    return sp_prefix(err, "stage '%s'", stage->name);
  return status;
}

/* Of a weight that ranks have slices of: for the others, on the rank that gives them all that was loaded or begun
 * with. */
static int keep_whole(sp_weights *stage, size_t i, const void *src, sp_err *err) {
  size_t bytes = (size_t)sp_spec_bytes(&stage->weights[i].spec);
  if (!stage->whole &&
      !(stage->whole = sp_store_zalloc(stage->store, stage->n_weights, sizeof *stage->whole, "weights", err)))
    return err->status;
  if (!stage->whole[i] && !(stage->whole[i] = sp_calloc(1, bytes + 1)))
    return sp_nomem(err, bytes, stage->weights[i].name);
  if (stage->whole[i] != src) memcpy(stage->whole[i], src, bytes);
  return SP_OK;
}

int sp_weights_put(sp_weights *stage, size_t i, const void *src, sp_err *err) {
  const sp_store *store = stage->store;
  size_t at = 0;
  stage->stale = true;
  if (sp_weights_sliced(stage, i)) {
    int status = sp_store_writes(store) ? keep_whole(stage, i, src, err) : SP_OK;
    if (status || !stage->w[i].data) return status;
    at = (size_t)sp_store_slice_of(store, store->reduce->rank, stage->weights[i].of - 1)->at * sizeof(float);
  }
  return sp_place_upload(stage->place, stage->w[i].data, (const char *)src + at, (size_t)sp_weights_bytes(stage, i),
                         err);
}

int sp_weights_no_memory(const sp_weights *stage, size_t i, sp_err *err) {
  return sp_fail(err, SP_E_INVALID, "stage '%s': weight '%s' has no memory, since its graph could not be made",
                 stage->name, stage->weights[i].name);
}

int sp_weights_get(sp_weights *stage, size_t i, const void **data, void **owned, sp_err *err) {
  sp_place *place = stage->place;
  size_t bytes = (size_t)sp_spec_bytes(&stage->weights[i].spec);
  *owned = NULL;
  *data = stage->w[i].data;
  if (sp_weights_sliced(stage, i)) {
    bool given = stage->whole && stage->whole[i];
    int status = given ? SP_OK : sp_slices_gather(stage, i, owned, err);
    *data = given ? stage->whole[i] : *owned;
    return status;
  }
  if (!stage->w[i].data) return sp_weights_no_memory(stage, i, err);
  if (sp_place_is_host(place)) return SP_OK;
  if (!(*owned = sp_calloc(1, bytes ? bytes : 1))) return sp_nomem(err, bytes, stage->weights[i].name);
  *data = *owned;
  return sp_place_download(place, *owned, stage->w[i].data, bytes, err);
}

int sp_weights_read(sp_weights *stage, const char *name, sp_spec *spec, void *dst, size_t bytes, sp_err *err) {
  int status;
  for (size_t i = 0; i < stage->n_weights; i++) {
    if (strcmp(stage->weights[i].name, name)) continue;
    *spec = stage->weights[i].spec;
    spec->order = SP_ROW_MAJOR;
    if (!dst) return SP_OK; /* only the spec is asked */
    if ((int64_t)bytes != sp_spec_bytes(spec))
      return sp_fail(err, SP_E_SHAPE, "weight '%s.%s' has %" PRId64 " bytes, not %zu", stage->name, name,
                     sp_spec_bytes(spec), bytes);
    if (!stage->w || !stage->w[i].data)
      return sp_fail(err, SP_E_STATE, "weight '%s.%s' has no values yet", stage->name, name);
    const void *data;
    void *copy;
    status = sp_weights_get(stage, i, &data, &copy, err);
    if (!status) sp_spec_copy(spec, dst, &stage->weights[i].spec, data);
    free(copy);
    return status;
  }
  return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no weight '%s'", stage->name, name);
}
