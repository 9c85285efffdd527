/* SPDX-License-Identifier: MIT
 * flip_cuda.c - the stage `flip` on CUDA. */
#include "../../kits/cuda/check.h"
#include "flip_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const flip_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const int32_t *given = aug_given(ctx, io, "flips", &rc);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->draws);
  return cuda_check(ctx,
                    flip_launch(ctx->stream, &jobs, &dice, flip_odds_of(p), given, io->out[AUG_DRAWN].t->data,
                                io->out[AUG_STATUS].t->data),
                    "mirroring");
}

AUG_CUDA_STAGE(flip, "flip", FLIP_DOC, SP_STAGE_STOCHASTIC, .status_doc = FLIP_STATUS_DOC, .create = stateless_create,
               .destroy = stateless_destroy, .plan = flip_plan, .forward = forward);
