/* SPDX-License-Identifier: MIT
 * deviation_cuda.c - the stage `deviation` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "deviation.h"
#include "deviation_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  (void)self;
  return limb_plan(ctx, pl, DEV_ROWS);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  limb_job j;
  (void)self;
  limb_job_of(&j, io);
  return cuda_check(ctx, devk_sum(ctx->stream, &j), "summing differences");
}

SP_STAGE_CUDA(DEVIATION_PAIR, .plan = plan, .forward = forward);
