/* SPDX-License-Identifier: MIT
 * feature_cache.h - what is called in the place of a stage whose outputs are kept: moves rows of samples between the
 * batch and tables. The graph adds it, and calls it with that stage's outputs;
 * weight f is the table of the f-th of their tensors. */
#ifndef FEATURE_CACHE_H
#define FEATURE_CACHE_H

#include <spcore/plugin.h>

#define CACHE_DOC "Rows of a frozen stage's outputs, kept by sample"

typedef struct cache_params {
  int32_t put;
} cache_params;

/* One tensor of the batch and its table. */
typedef struct cache_move {
  char *batch, *table;
  int64_t n; /* samples */
  size_t row;
  int put; /* into the table */
} cache_move;

extern const sp_param cache_param_table[];
int cache_plan(sp_ctx *ctx, void *self, sp_plan *plan);
/* Of all that is kept. */
int cache_each(sp_ctx *ctx, const cache_params *p, const sp_io *io,
               int (*move)(sp_ctx *ctx, const sp_io *io, const cache_move *m));

/* The type on a device; `move` is the call above. */
#define CACHE_STAGE(on, file, move)                                                                             \
  static int forward(sp_ctx *ctx, void *self, const sp_io *io) { return cache_each(ctx, self, io, move); }      \
  static const sp_stage_type cache_type = {.size = sizeof(sp_stage_type),                                       \
                                           .flags = SP_STAGE_SHARDS | SP_STAGE_REENTRANT | SP_STAGE_CAPTURABLE, \
                                           .name = "feature_cache",                                             \
                                           .device = on,                                                        \
                                           .doc = CACHE_DOC,                                                    \
                                           .params = cache_param_table,                                         \
                                           .params_size = sizeof(cache_params),                                 \
                                           .create = stateless_create,                                          \
                                           .destroy = stateless_destroy,                                        \
                                           .plan = cache_plan,                                                  \
                                           .forward = forward};                                                 \
  static const sp_stage_type *const stages[] = {&cache_type, NULL};                                             \
  SP_PLUGIN(file, CACHE_DOC, stages)

#endif
