/* SPDX-License-Identifier: MIT
 * batch_rotate_cuda.c - the stage `batch_rotate` on CUDA. */
#include "../../kits/cuda/check.h"
#include "batch_rotate_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const rotate_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const float *given = aug_given(ctx, io, "angles", &rc);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->draws);
  rotate_how how = rotate_how_of(p);
  how.mask_fill = aug_mask_fill(io, p->mask_fill);
  return cuda_check(
      ctx,
      rotate_launch(ctx->stream, &jobs, &dice, &how, given, io->out[AUG_DRAWN].t->data, io->out[AUG_STATUS].t->data),
      "rotating");
}

AUG_CUDA_STAGE(rotate, "batch_rotate", ROTATE_DOC, SP_STAGE_STOCHASTIC, .status_doc = ROTATE_STATUS_DOC,
               .create = stateless_create, .destroy = stateless_destroy, .plan = rotate_plan, .forward = forward);
