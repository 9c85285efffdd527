/* SPDX-License-Identifier: MIT
 * calibration_cuda.c - the stage `calibration` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "calibration.h"
#include "calibration_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  pl->scratch_bytes = sizeof(unsigned long long);
  return cal_plan(ctx, self, pl);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const cal_params *p = self;
  calk_job j = {.bins = (int)p->bins,
                .reliability = io->out[CAL_OUT_RELIABILITY].t[0].data,
                .status = io->out[CAL_OUT_STATUS].t[0].data,
                .bad = io->scratch};
  score_job_of(&j.s, io, p->ignore_index);
  return cuda_check(ctx, calk_count(ctx->stream, &j), "counting predictions");
}

SP_STAGE_CUDA(CALIBRATION_PAIR, .plan = plan, .forward = forward);
