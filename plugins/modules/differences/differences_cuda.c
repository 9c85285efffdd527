/* SPDX-License-Identifier: MIT
 * differences_cuda.c - the losses `mse`, `l1` and `huber` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/pointwise/pointwise_kernels.h"
#include "differences.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = difference_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  pl->scratch_bytes = pointk_scratch();
  return SP_OK;
}

static int run(sp_ctx *ctx, void *self, const sp_io *io, int cost) {
  point_job j;
  difference_job(&j, self, io, cost);
  return cuda_check(ctx, pointk_loss(ctx->stream, &j), "computing the loss");
}

#define TYPE(id, cost, words) DIFFERENCES_TYPE(id, cost, words, "cuda", SP_STAGE_CAPTURABLE, run)
DIFFERENCES_STAGES(TYPE)
static const sp_stage_type *const stages[] = {DIFFERENCES_STAGES(DIFFERENCES_POINTER) NULL};

SP_PLUGIN("differences_cuda", "Losses of differences, on CUDA", stages);
