/* SPDX-License-Identifier: MIT
 * mse_cpu.c - the stage `mse` on the CPU. */
#include "../../kits/stateless.h"
#include "mse.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = mse_plan(ctx, self, pl);
  if (rc) return rc;
  pl->scratch_bytes = point_scratch(&pl->in[LOSS_IN_LOGITS].spec[0]);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  point_job j;
  mse_job(&j, self, io);
  return point_loss(ctx, &j);
}

static const sp_stage_type mse_type = {.size = sizeof(sp_stage_type),
                                       .flags = SP_STAGE_LOSS,
                                       .name = "mse",
                                       .device = "cpu",
                                       .doc = MSE_DOC,
                                       .inputs = mse_inputs,
                                       .outputs = loss_outputs,
                                       .params = mse_param_table,
                                       .params_size = sizeof(mse_params),
                                       .status_doc = LOSS_STATUS_DOC,
                                       .create = stateless_create,
                                       .destroy = stateless_destroy,
                                       .plan = plan,
                                       .forward = forward};
static const sp_stage_type *const stages[] = {&mse_type, NULL};

SP_PLUGIN("mse", "Mean squared error", stages);
