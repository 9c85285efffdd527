/* SPDX-License-Identifier: MIT
 * focal_cuda.c - the stage `focal` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/pointwise/pointwise_kernels.h"
#include "../../kits/stateless.h"
#include "focal.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = focal_plan(ctx, self, pl);
  if (rc) return rc;
  pl->scratch_bytes = pointk_scratch();
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  point_job j;
  focal_job(&j, self, io);
  return cuda_check(ctx, pointk_loss(ctx->stream, &j), "computing the loss");
}

static const sp_stage_type focal_type = {.size = sizeof(sp_stage_type),
                                         .flags = SP_STAGE_LOSS | SP_STAGE_CAPTURABLE,
                                         .name = "focal",
                                         .device = "cuda",
                                         .doc = FOCAL_DOC,
                                         .inputs = loss_inputs,
                                         .outputs = loss_outputs,
                                         .params = focal_param_table,
                                         .params_size = sizeof(focal_params),
                                         .status_doc = LOSS_STATUS_DOC,
                                         .create = focal_create,
                                         .destroy = stateless_destroy,
                                         .plan = plan,
                                         .forward = forward};
static const sp_stage_type *const stages[] = {&focal_type, NULL};

SP_PLUGIN("focal_cuda", "Focal loss, on CUDA", stages);
