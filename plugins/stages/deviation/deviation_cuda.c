/* SPDX-License-Identifier: MIT
 * deviation_cuda.c - the stage `deviation` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "deviation.h"
#include "deviation_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *x = &io->in[DEV_IN_INPUT].t[0], *y = &io->in[DEV_IN_TARGET].t[0];
  devk_job j = {.x = x->data, .y = y->data, .sums = io->out[0].t[0].data};
  (void)self;
  dev_shape_of(&j.s, &x->spec, &y->spec);
  return cuda_check(ctx, devk_sum(ctx->stream, &j), "summing differences");
}

SP_STAGE_CUDA(DEVIATION_PAIR, .plan = dev_plan, .forward = forward);
