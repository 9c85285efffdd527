/* SPDX-License-Identifier: MIT
 * feature_cache.c - which rows there are, for every device. */
#include "feature_cache.h"

#include "../../kits/spec.h"

const sp_param cache_param_table[] = {{.name = "put",
                                       .type = SP_PARAM_BOOL,
                                       .offset = offsetof(cache_params, put),
                                       .doc = "rows go to the tables, else they come from there"},
                                      {.name = NULL}};

int cache_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)ctx, (void)self, (void)plan;
  return SP_OK;
}

int cache_each(sp_ctx *ctx, const cache_params *p, const sp_io *io,
               int (*move)(sp_ctx *ctx, const sp_io *io, const cache_move *m)) {
  const sp_tensor *table = io->weights;
  int rc = SP_OK;
  for (uint32_t o = 0; o < io->n_out; o++)
    for (uint32_t k = 0; k < io->out[o].n && !rc; k++, table++) {
      const sp_tensor *t = &io->out[o].t[k];
      if (!table->data || !t->spec.shape[0]) continue;
      cache_move m = {t->data, table->data, t->spec.shape[0], spec_bytes(&t->spec) / (size_t)t->spec.shape[0], p->put};
      rc = move(ctx, io, &m);
    }
  return rc;
}
