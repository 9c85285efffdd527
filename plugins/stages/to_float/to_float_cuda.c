/* SPDX-License-Identifier: MIT
 * to_float_cuda.c - the stage `to_float` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/spec.h"
#include "to_float.h"
#include "to_float_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *in = io->in[0].t, *out = io->out[0].t;
  return cuda_check(ctx, tfk_convert(ctx->stream, out->data, in->data, spec_elements(&in->spec), to_float_factor(self)),
                    "converting bytes");
}

SP_STAGE_CUDA(TO_FLOAT_PAIR, .forward = forward);
