/* SPDX-License-Identifier: MIT
 * bce_cpu.c - the stage `bce` on the CPU. */
#include "../../kits/stateless.h"
#include "bce.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = bce_plan(ctx, self, pl);
  if (rc) return rc;
  pl->scratch_bytes = point_scratch(&pl->in[LOSS_IN_LOGITS].spec[0]);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  point_job j;
  bce_job(&j, self, io);
  return point_loss(ctx, &j);
}

static const sp_stage_type bce_type = {.size = sizeof(sp_stage_type),
                                       .flags = SP_STAGE_LOSS,
                                       .name = "bce",
                                       .device = "cpu",
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

SP_PLUGIN("bce", "Binary cross-entropy loss", stages);
