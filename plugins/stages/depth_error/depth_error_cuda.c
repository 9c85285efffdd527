/* SPDX-License-Identifier: MIT
 * depth_error_cuda.c - the stage `depth_error` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "depth_error.h"
#include "depth_error_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  (void)self;
  return limb_plan(ctx, pl, DEPTH_ROWS);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  limb_job j;
  limb_job_of(&j, io);
  return cuda_check(ctx, depthk_sum(ctx->stream, &j, self), "summing errors of depths");
}

SP_STAGE_CUDA(DEPTH_ERROR_PAIR, .plan = plan, .forward = forward);
