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

SP_STAGE_CPU(BCE_PAIR, .plan = plan, .forward = forward);
