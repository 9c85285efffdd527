/* SPDX-License-Identifier: MIT
 * dropout_cuda.c - the stage `dropout` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "dropout.h"
#include "dropout_kernels.h"

static int run(sp_ctx *ctx, void *self, const sp_io *io, const float *from, float *to, int add) {
  drop_shape s = dropout_shape(self, &io->out[0].t[0].spec);
  if (!from && add) return SP_OK;
  return cuda_check(ctx, dropk_run(ctx->stream, &s, io->step, io->ids, from, to, add), "dropping");
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  return run(ctx, self, io, io->in[0].t[0].data, io->out[0].t[0].data, 0);
}

/* What was dropped is drawn again. */
static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  float *dx = io->din[0].t[0].data;
  return dx ? run(ctx, self, io, io->dout[0].t[0].data, dx, io->din_acc[0][0]) : SP_OK;
}

SP_STAGE_CUDA(DROPOUT_PAIR, .forward = forward, .backward = backward);
