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

SP_STAGE_CPU(MSE_PAIR, .plan = plan, .forward = forward);
