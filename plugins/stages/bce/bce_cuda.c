/* SPDX-License-Identifier: MIT
 * bce_cuda.c - the stage `bce` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/pointwise/pointwise_kernels.h"
#include "../../kits/stateless.h"
#include "bce.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = bce_plan(ctx, self, pl);
  if (rc) return rc;
  pl->scratch_bytes = pointk_scratch();
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  point_job j;
  bce_job(&j, self, io);
  return cuda_check(ctx, pointk_loss(ctx->stream, &j), "computing the loss");
}

static const sp_stage_type bce_type = {.size = sizeof(sp_stage_type),
                                       .flags = SP_STAGE_LOSS | SP_STAGE_CAPTURABLE,
                                       .name = "bce",
                                       .device = "cuda",
                                       .doc = BCE_DOC,
                                       .inputs = bce_inputs,
                                       .outputs = loss_outputs,
                                       .params = bce_param_table,
                                       .params_size = sizeof(bce_params),
                                       .status_doc = LOSS_STATUS_DOC,
                                       .create = stateless_create,
                                       .destroy = stateless_destroy,
                                       .plan = plan,
                                       .forward = forward};
static const sp_stage_type *const stages[] = {&bce_type, NULL};

SP_PLUGIN("bce_cuda", "Binary cross-entropy loss, on CUDA", stages);
