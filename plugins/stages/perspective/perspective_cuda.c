/* SPDX-License-Identifier: MIT
 * perspective_cuda.c - the stage `perspective` on CUDA. */
#include "../../kits/cuda/check.h"
#include "perspective_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const perspective_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const warp_corners *given = aug_given(ctx, io, "corners", &rc);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->warp.draws);
  perspective_range range = perspective_range_of(p, jobs.job[0].h, jobs.job[0].w);
  warp_how how = warp_how_of(io, &p->warp);
  return cuda_check(ctx,
                    perspective_launch(ctx->stream, &jobs, &dice, &range, &how, given, io->out[AUG_DRAWN].t->data,
                                       io->scratch, io->out[AUG_STATUS].t->data),
                    "moving corners");
}

AUG_CUDA_STAGE(perspective, "perspective", PERSPECTIVE_DOC, SP_STAGE_STOCHASTIC, .status_doc = PERSPECTIVE_STATUS_DOC,
               .create = stateless_create, .destroy = stateless_destroy, .plan = perspective_plan, .forward = forward);
