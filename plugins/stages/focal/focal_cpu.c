/* SPDX-License-Identifier: MIT
 * focal_cpu.c - the stage `focal` on the CPU. */
#include "../../kits/stateless.h"
#include "focal.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = focal_plan(ctx, self, pl);
  if (rc) return rc;
  pl->scratch_bytes = point_scratch(&pl->in[LOSS_IN_LOGITS].spec[0]);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  point_job j;
  focal_job(&j, self, io);
  return point_loss(ctx, &j);
}

static const sp_stage_type focal_type = {.size = sizeof(sp_stage_type),
                                         .flags = SP_STAGE_LOSS,
                                         .name = "focal",
                                         .device = "cpu",
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

SP_PLUGIN("focal", "Focal loss", stages);
