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

static const sp_stage_type blur_type = {.size = sizeof(sp_stage_type),
                                        .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT | SP_STAGE_STOCHASTIC,
                                        .name = "blur",
                                        .device = "cuda",
                                        .doc = BLUR_DOC,
                                        .inputs = blur_inputs,
                                        .outputs = blur_outputs,
                                        .params = blur_param_table,
                                        .params_size = sizeof(blur_params),
                                        .status_doc = BLUR_STATUS_DOC,
                                        .create = stateless_create,
                                        .destroy = stateless_destroy,
                                        .plan = blur_plan,
                                        .forward = forward};
static const sp_stage_type *const stages[] = {&blur_type, NULL};

SP_PLUGIN("blur_cuda", BLUR_DOC, stages);
