/* SPDX-License-Identifier: MIT
 * deviation_cpu.c - the stage `deviation` on the CPU. */
#include "../../kits/limbs/limbs_cpu.h"
#include "../../kits/stateless.h"
#include "deviation.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  (void)self;
  return limb_cpu_plan(ctx, pl, DEV_ROWS);
}

static int sum_chunk(void *arg, int64_t item, int worker) {
  (void)worker;
  return limb_chunk(arg, item, dev_add);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) { return limb_cpu_forward(ctx, io, self, sum_chunk); }

SP_STAGE_CPU(DEVIATION_PAIR, .plan = plan, .forward = forward);
