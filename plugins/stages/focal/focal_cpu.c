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

SP_STAGE_CPU(FOCAL_PAIR, .plan = plan, .forward = forward);
