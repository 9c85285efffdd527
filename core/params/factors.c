/* SPDX-License-Identifier: MIT
 * factors.c - gradients that are products of factors: the memory that the rows of all shards lie in. */
#include "params/params.h"

#include <stdlib.h>

static int make_rows(sp_weights *stage, size_t i, sp_err *err) {
  sp_store *store = stage->store;
  sp_tensor *t = &stage->rows[i];
  t->spec = stage->factors[i].spec;
  t->spec.shape[0] *= store->shards;
  size_t bytes = (size_t)sp_spec_bytes(&t->spec);
  if (store->reduce) return sp_reduce_take(store->reduce, bytes, &t->data, err);
  t->data = sp_store_alloc(store, stage->place, bytes, "factors", err);
  return t->data ? SP_OK : err->status;
}

int sp_store_make_factors(sp_store *store, sp_err *err) {
  int status = SP_OK;
  for (size_t k = 0; k < store->n_stages && !status; k++) {
    sp_weights *stage = store->stages[k];
    if (!stage->n_factors || stage->rows) continue;
    if (!(stage->rows = sp_calloc(stage->n_factors, sizeof *stage->rows)))
      return sp_nomem(err, stage->n_factors, "factors");
    for (size_t i = 0; i < stage->n_factors && !status; i++) status = make_rows(stage, i, err);
  }
  return status;
}

void sp_weights_drop_factors(sp_weights *stage) {
  for (size_t i = 0; stage->rows && i < stage->n_factors; i++) {
    void *data = stage->rows[i].data;
    if (data && stage->store->reduce) stage->store->reduce->type->free(stage->store->reduce->comm, data);
    else sp_place_free(stage->place, data);
  }
  free(stage->rows);
  free(stage->factors);
  stage->rows = NULL;
  stage->factors = NULL;
  stage->n_factors = 0;
}
