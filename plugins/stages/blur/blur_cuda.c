/* SPDX-License-Identifier: MIT
 * blur_cuda.c - the stage `blur` on CUDA. */
#include "../../kits/cuda/check.h"
#include "blur_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const blur_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const float *given = aug_given(ctx, io, "sigmas", &rc);
  if (rc) return rc;
  blur_call c = {.dice = aug_dice_of(io, &p->draws),
                 .given = given,
                 .sigmas = io->out[AUG_DRAWN].t->data,
                 .status = io->out[AUG_STATUS].t->data,
                 .lo = blur_lo(p),
                 .hi = blur_hi(p),
                 .rx = blur_rx(p),
                 .ry = blur_ry(p)};
  return cuda_check(ctx, blur_launch(ctx->stream, &jobs, &c), "blurring");
}

AUG_CUDA_STAGE(blur, "blur", BLUR_DOC, SP_STAGE_STOCHASTIC, .status_doc = BLUR_STATUS_DOC, .create = stateless_create,
               .destroy = stateless_destroy, .plan = blur_plan, .forward = forward);
