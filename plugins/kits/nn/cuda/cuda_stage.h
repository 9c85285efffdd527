/* SPDX-License-Identifier: MIT
 * cuda_stage.h - the callbacks that every stage made of a network shares on CUDA. */
#ifndef NN_CUDA_STAGE_H
#define NN_CUDA_STAGE_H

#include "cuda_net.h"
#include "../net/stage.h"

typedef struct nnc_stage {
  const void *params;
  nn_cuda cuda;
} nnc_stage;

int nnc_stage_create(sp_ctx *ctx, const void *params, void **self);
void nnc_stage_destroy(void *self);
int nnc_stage_plan(sp_ctx *ctx, void *self, sp_plan *plan, nn_builder build);
int nnc_stage_prepare(sp_ctx *ctx, void *self, const sp_io *io);
int nnc_stage_forward(sp_ctx *ctx, void *self, const sp_io *io);
int nnc_stage_backward(sp_ctx *ctx, void *self, const sp_io *io);
int nnc_stage_apply(sp_ctx *ctx, void *self, const sp_io *io);

#define NN_CUDA_STAGE(id, words) NN_STAGE(id, words, cuda, SP_STAGE_CAPTURABLE, nnc_stage)

#endif
