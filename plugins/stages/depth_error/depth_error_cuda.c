/* SPDX-License-Identifier: MIT
 * depth_error_cuda.c - the stage `depth_error` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "depth_error.h"
#include "depth_error_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *x = &io->in[DEV_IN_INPUT].t[0], *y = &io->in[DEV_IN_TARGET].t[0];
  depthk_job j = {.p = *(const depth_params *)self, .x = x->data, .y = y->data, .sums = io->out[0].t[0].data};
  dev_shape_of(&j.s, &x->spec, &y->spec);
  return cuda_check(ctx, depthk_sum(ctx->stream, &j), "summing errors of depths");
}

SP_STAGE_CUDA(DEPTH_ERROR_PAIR, .plan = depth_plan, .forward = forward);
