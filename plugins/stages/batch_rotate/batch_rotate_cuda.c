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
  return cuda_check(
      ctx,
      rotate_launch(ctx->stream, &jobs, &dice, &how, given, io->out[AUG_DRAWN].t->data, io->out[AUG_STATUS].t->data),
      "rotating");
}

static const sp_stage_type rotate_type = {.size = sizeof(sp_stage_type),
                                          .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT | SP_STAGE_STOCHASTIC,
                                          .name = "batch_rotate",
                                          .device = "cuda",
                                          .doc = ROTATE_DOC,
                                          .inputs = rotate_inputs,
                                          .outputs = rotate_outputs,
                                          .params = rotate_param_table,
                                          .params_size = sizeof(rotate_params),
                                          .status_doc = ROTATE_STATUS_DOC,
                                          .create = stateless_create,
                                          .destroy = stateless_destroy,
                                          .plan = rotate_plan,
                                          .forward = forward};
static const sp_stage_type *const stages[] = {&rotate_type, NULL};

SP_PLUGIN("batch_rotate_cuda", ROTATE_DOC, stages);
