/* SPDX-License-Identifier: MIT
 * resize_cuda.c - the stage `resize` on CUDA. */
#include "../../kits/cuda/check.h"
#include "resize_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  int64_t h, w;
  return resize_check(ctx, self, plan, &h, &w);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const resize_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  return cuda_check(ctx, resize_launch(ctx->stream, &jobs, resize_how(&p->filter)), "resizing");
}

AUG_CUDA_STAGE(resize, "resize", RESIZE_DOC, 0, .create = stateless_create, .destroy = stateless_destroy, .plan = plan,
               .forward = forward);
