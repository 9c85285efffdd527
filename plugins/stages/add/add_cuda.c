/* SPDX-License-Identifier: MIT
 * add_cuda.c - the stage `add` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/spec.h"
#include "add.h"
#include "add_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *y = io->out[0].t;
  const float *x[SP_MAX_LIST];
  (void)self;
  for (uint32_t k = 0; k < io->in[0].n; k++) x[k] = io->in[0].t[k].data;
  return cuda_check(ctx, adk_sum(ctx->stream, y->data, x, (int)io->in[0].n, 0, spec_elements(&y->spec)), "adding");
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *dy = io->dout[0].t;
  float *dx[SP_MAX_LIST];
  (void)self;
  for (uint32_t k = 0; k < io->din[0].n; k++) dx[k] = io->din[0].t[k].data;
  return cuda_check(
      ctx, adk_pass(ctx->stream, dx, io->din_acc[0], (int)io->din[0].n, dy->data, spec_elements(&io->out[0].t[0].spec)),
      "passing gradients");
}

SP_STAGE_CUDA(ADD_PAIR, .forward = forward, .backward = backward);
