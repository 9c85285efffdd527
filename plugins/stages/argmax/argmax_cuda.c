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

static const sp_stage_type argmax_type = {.size = sizeof(sp_stage_type),
                                          .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                          .name = "argmax",
                                          .device = "cuda",
                                          .doc = ARGMAX_DOC,
                                          .inputs = argmax_inputs,
                                          .outputs = argmax_outputs,
                                          .create = stateless_create,
                                          .destroy = stateless_destroy,
                                          .plan = argmax_plan,
                                          .forward = forward};
static const sp_stage_type *const stages[] = {&argmax_type, NULL};

SP_PLUGIN("argmax_cuda", "Logits to labels, on CUDA", stages);
