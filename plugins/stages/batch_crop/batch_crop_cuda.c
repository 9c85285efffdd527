/* SPDX-License-Identifier: MIT
 * batch_crop_cuda.c - the stage `batch_crop` on CUDA. */
#include "../../kits/cuda/check.h"
#include "batch_crop_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const crop_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const int32_t *given = aug_given(ctx, io, "boxes", &rc);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->draws);
  return cuda_check(
      ctx,
      crop_launch(ctx->stream, &jobs, &dice, given, io->out[AUG_DRAWN].t->data, io->out[AUG_STATUS].t->data, p->mode),
      "cropping");
}

AUG_CUDA_STAGE(crop, "batch_crop", CROP_DOC, SP_STAGE_STOCHASTIC, .status_doc = CROP_STATUS_DOC,
               .create = stateless_create, .destroy = stateless_destroy, .plan = crop_plan, .forward = forward);
