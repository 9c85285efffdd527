/* SPDX-License-Identifier: MIT
 * affine_cuda.c - the stage `affine` on CUDA. */
#include "../../kits/cuda/check.h"
#include "affine_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const affine_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const warp_affine *given = aug_given(ctx, io, "affines", &rc);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->warp.draws);
  affine_range range = affine_range_of(p, jobs.job[0].h, jobs.job[0].w);
  warp_how how = warp_how_of(io, &p->warp);
  return cuda_check(ctx,
                    affine_launch(ctx->stream, &jobs, &dice, &range, &how, given, io->out[AUG_DRAWN].t->data,
                                  io->scratch, io->out[AUG_STATUS].t->data),
                    "changing images");
}

AUG_CUDA_STAGE(affine, "affine", AFFINE_DOC, SP_STAGE_STOCHASTIC, .status_doc = AFFINE_STATUS_DOC,
               .create = stateless_create, .destroy = stateless_destroy, .plan = affine_plan, .forward = forward);
