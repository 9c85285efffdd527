/* SPDX-License-Identifier: MIT
 * normalize_cuda.c - the stage `normalize` on CUDA. */
#include "../../kits/cuda/check.h"
#include "normalize_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  norm_terms t;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  norm_terms_of(self, &t);
  return cuda_check(ctx, norm_launch(ctx->stream, &jobs, &t), "normalizing");
}

AUG_CUDA_STAGE(norm, "normalize", NORM_DOC, 0, .create = stateless_create, .destroy = stateless_destroy,
               .plan = norm_plan, .forward = forward);
