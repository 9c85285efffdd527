/* SPDX-License-Identifier: MIT
 * color_jitter_cuda.c - the stage `color_jitter` on CUDA. */
#include "../../kits/cuda/check.h"
#include "color_jitter_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const jitter_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const float *given = aug_given(ctx, io, "factors", &rc);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->draws);
  jitter_ranges ranges;
  jitter_ranges_of(p, &ranges);
  return cuda_check(ctx,
                    jitter_launch(ctx->stream, &jobs, (int)io->in[AUG_IMAGES].n, &dice, &ranges, given,
                                  io->out[AUG_DRAWN].t->data, io->out[AUG_STATUS].t->data,
                                  jitter_means(p, given) ? io->scratch : NULL, (float)p->max),
                    "changing colours");
}

AUG_CUDA_STAGE(jitter, "color_jitter", JITTER_DOC, SP_STAGE_STOCHASTIC, .status_doc = JITTER_STATUS_DOC,
               .create = jitter_create, .destroy = stateless_destroy, .plan = jitter_plan, .forward = forward);
