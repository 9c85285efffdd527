/* SPDX-License-Identifier: MIT
 * differences_cpu.c - the losses `mse`, `l1` and `huber` on the CPU. */
#include "differences.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = difference_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  pl->scratch_bytes = point_scratch(&pl->in[LOSS_IN_LOGITS].spec[0]);
  return SP_OK;
}

static int run(sp_ctx *ctx, void *self, const sp_io *io, int cost) {
  point_job j;
  difference_job(&j, self, io, cost);
  return point_loss(ctx, &j);
}

#define TYPE(id, cost, words) DIFFERENCES_TYPE(id, cost, words, "cpu", 0, run)
DIFFERENCES_STAGES(TYPE)
static const sp_stage_type *const stages[] = {DIFFERENCES_STAGES(DIFFERENCES_POINTER) NULL};

SP_PLUGIN("differences", "Losses of differences", stages);
