/* SPDX-License-Identifier: MIT
 * cpu_stage.h - the callbacks that every stage made of a network shares on the CPU. */
#ifndef NN_CPU_STAGE_H
#define NN_CPU_STAGE_H

#include "cpu_net.h"
#include "../net/stage.h"

typedef struct nn_stage {
  const void *params;
  nn_cpu cpu;
} nn_stage;

int nn_stage_create(sp_ctx *ctx, const void *params, void **self);
void nn_stage_destroy(void *self);
int nn_stage_plan(sp_ctx *ctx, void *self, sp_plan *plan, nn_builder build);
int nn_stage_prepare(sp_ctx *ctx, void *self, const sp_io *io);
int nn_stage_forward(sp_ctx *ctx, void *self, const sp_io *io);
int nn_stage_backward(sp_ctx *ctx, void *self, const sp_io *io);
int nn_stage_apply(sp_ctx *ctx, void *self, const sp_io *io);

#define NN_CPU_STAGE(id, words) NN_STAGE(id, words, cpu, 0, nn_stage)

#endif
