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

static const sp_stage_type to_float_type = {.size = sizeof(sp_stage_type),
                                            .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                            .name = "to_float",
                                            .device = "cuda",
                                            .doc = TO_FLOAT_DOC,
                                            .inputs = to_float_inputs,
                                            .outputs = to_float_outputs,
                                            .params = to_float_param_table,
                                            .params_size = sizeof(to_float_params),
                                            .create = stateless_create,
                                            .destroy = stateless_destroy,
                                            .plan = to_float_plan,
                                            .forward = forward};
static const sp_stage_type *const stages[] = {&to_float_type, NULL};

SP_PLUGIN("to_float_cuda", "Bytes to float32, on CUDA", stages);
