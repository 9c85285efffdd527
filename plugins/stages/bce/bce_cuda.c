/* SPDX-License-Identifier: MIT
 * bce_cuda.c - the stage `bce` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/pointwise/pointwise_kernels.h"
#include "../../kits/stateless.h"
#include "bce.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = bce_plan(ctx, self, pl);
  if (rc) return rc;
  pl->scratch_bytes = pointk_scratch();
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  point_job j;
  bce_job(&j, self, io);
  return cuda_check(ctx, pointk_loss(ctx->stream, &j), "computing the loss");
}

SP_STAGE_CUDA(BCE_PAIR, .plan = plan, .forward = forward);
