/* SPDX-License-Identifier: MIT
 * argmax_cuda.c - the stage `argmax` on CUDA. */
#include "../../kits/cuda/check.h"
#include "argmax.h"
#include "argmax_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *in = io->in[0].t;
  logit_shape s;
  (void)self;
  logit_shape_of(&s, &in->spec);
  return cuda_check(ctx, amk_labels(ctx->stream, io->out[0].t[0].data, in->data, &s), "labelling");
}

SP_STAGE_CUDA(ARGMAX_PAIR, .forward = forward);
