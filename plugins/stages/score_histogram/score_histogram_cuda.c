/* SPDX-License-Identifier: MIT
 * score_histogram_cuda.c - the stage `score_histogram` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "score_histogram.h"
#include "score_histogram_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = shist_plan(ctx, self, pl);
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[0].spec[0]);
  pl->scratch_bytes = (size_t)(s.n * s.px) * (sizeof(double) + sizeof(float)) + sizeof(unsigned long long);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const shist_params *p = self;
  shk_job j = {.bins = shist_bins_of(p),
               .scores = io->out[SHIST_OUT_SCORES].t[0].data,
               .status = io->out[SHIST_OUT_STATUS].t[0].data,
               .bad = io->scratch};
  score_job_of(&j.s, io, p->ignore_index);
  j.all = (double *)(j.bad + 1);
  j.max = (float *)(j.all + j.s.shape.n * j.s.shape.px);
  return cuda_check(ctx, shk_count(ctx->stream, &j), "counting scores");
}

SP_STAGE_CUDA(SCORE_HISTOGRAM_PAIR, .plan = plan, .forward = forward);
