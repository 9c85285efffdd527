/* SPDX-License-Identifier: MIT
 * depth_error_cpu.c - the stage `depth_error` on the CPU. */
#include "../../kits/limbs/limbs_cpu.h"
#include "../../kits/stateless.h"
#include "depth_error.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  (void)self;
  return limb_cpu_plan(ctx, pl, DEPTH_ROWS);
}

static int sum_chunk(void *arg, int64_t item, int worker) {
  (void)worker;
  return limb_chunk(arg, item, depth_add);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) { return limb_cpu_forward(ctx, io, self, sum_chunk); }

SP_STAGE_CPU(DEPTH_ERROR_PAIR, .plan = plan, .forward = forward);
