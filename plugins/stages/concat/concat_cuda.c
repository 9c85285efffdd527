/* SPDX-License-Identifier: MIT
 * concat_cuda.c - the stage `concat` on CUDA. */
#include "../../kits/cuda/check.h"
#include "concat.h"
#include "concat_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_list *in = &io->in[0];
  const float *x[SP_MAX_LIST];
  concat_runs r;
  concat_runs_of(&r, self, in);
  for (uint32_t k = 0; k < in->n; k++) x[k] = in->t[k].data;
  return cuda_check(ctx, ctk_join(ctx->stream, io->out[0].t[0].data, x, r.run, (int)in->n, r.outer, r.all), "joining");
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_list *din = &io->din[0];
  float *dx[SP_MAX_LIST];
  concat_runs r;
  concat_runs_of(&r, self, &io->in[0]);
  for (uint32_t k = 0; k < din->n; k++) dx[k] = din->t[k].data;
  return cuda_check(
      ctx, ctk_split(ctx->stream, dx, io->din_acc[0], r.run, (int)din->n, io->dout[0].t[0].data, r.outer, r.all),
      "splitting a gradient");
}

SP_STAGE_CUDA(CONCAT_PAIR, .forward = forward, .backward = backward);
