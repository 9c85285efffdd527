/* SPDX-License-Identifier: MIT
 * mse_cuda.c - the stage `mse` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/pointwise/pointwise_kernels.h"
#include "../../kits/stateless.h"
#include "mse.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = mse_plan(ctx, self, pl);
  if (rc) return rc;
  pl->scratch_bytes = pointk_scratch();
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  point_job j;
  mse_job(&j, self, io);
  return cuda_check(ctx, pointk_loss(ctx->stream, &j), "computing the loss");
}

SP_STAGE_CUDA(MSE_PAIR, .plan = plan, .forward = forward);
