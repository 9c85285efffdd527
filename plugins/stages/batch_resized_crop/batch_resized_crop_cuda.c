/* SPDX-License-Identifier: MIT
 * batch_resized_crop_cuda.c - the stage `batch_resized_crop` on CUDA. */
#include "../../kits/cuda/check.h"
#include "batch_resized_crop_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  int64_t h, w;
  return zoom_check(ctx, self, plan, &h, &w);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const zoom_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const zoom_box *given = aug_given(ctx, io, "boxes", &rc);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->draws);
  zoom_range range = zoom_range_of(p, jobs.job[0].h, jobs.job[0].w);
  return cuda_check(ctx,
                    zoom_launch(ctx->stream, &jobs, &dice, &range, given, io->out[AUG_DRAWN].t->data, io->scratch,
                                io->out[AUG_STATUS].t->data, resize_how(&p->filter)),
                    "cropping and resizing");
}

AUG_CUDA_STAGE(zoom, "batch_resized_crop", ZOOM_DOC, SP_STAGE_STOCHASTIC, .status_doc = ZOOM_STATUS_DOC,
               .create = stateless_create, .destroy = stateless_destroy, .plan = plan, .forward = forward);
