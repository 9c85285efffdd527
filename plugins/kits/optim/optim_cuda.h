/* SPDX-License-Identifier: MIT
 * optim_cuda.h - what optimizers share on CUDA, of the host's part. */
#ifndef SP_PLUGINS_OPTIM_CUDA_H
#define SP_PLUGINS_OPTIM_CUDA_H

#include "optim_kernels.h"

size_t optim_cuda_scratch(const optim *o);

/* Fills t with the tensors from `from` on, with or without those that are apart; gives the first that did not fit. */
uint32_t optim_cuda_table(const optim *o, const sp_io *io, uint32_t from, int apart, opk_table *t);

/* The same of one tensor, which is here. */
void optim_cuda_one(const optim *o, const sp_io *io, uint32_t i, opk_table *t);

/* What survey() writes: the sum of squares of each chunk. */
int optim_cuda_survey(sp_ctx *ctx, const optim *o, const sp_io *io);

/* Norm, clipping, whether to skip, step count: enqueued before the update. `rules` has the optimizer's own constants;
 * all else is filled in. The update reads rules->head. */
int optim_cuda_begin(sp_ctx *ctx, const optim *o, const sp_io *io, opk_rules *rules);

/* An update of the tensors of a table: enqueues on the stream and returns a cudaError_t. */
typedef int (*optim_cuda_fn)(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status);

/* Behind what is above: fn over all tensors that are not apart, and averages of all. */
int optim_cuda_end(sp_ctx *ctx, const optim *o, const sp_io *io, const opk_rules *rules, optim_cuda_fn fn,
                   const void *rule);

/* Both. */
int optim_cuda_update(sp_ctx *ctx, const optim *o, const sp_io *io, opk_rules *rules, optim_cuda_fn fn,
                      const void *rule);

/* Behind the update: averages, where such are kept. */
int optim_cuda_average(sp_ctx *ctx, const optim *o, const sp_io *io, const opk_head *head);

#endif
