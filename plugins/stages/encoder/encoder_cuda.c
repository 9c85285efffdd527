/* SPDX-License-Identifier: MIT
 * encoder_cuda.c - the stage `encoder` on CUDA. */
#include "encoder.h"

#include "../../kits/nn/cuda_stage.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  nnc_stage *s = self;
  nn_net net = {0};
  nn_bind in, out[ENCODER_MAX_OUT];
  int n_out = 0, st = encoder_build(ctx, s->params, pl, &net, &in, out, &n_out);
  if (!st) st = nn_cuda_plan(ctx, &s->cuda, pl, &net, &in, 1, out, n_out);
  nn_clear(&net);
  return st;
}

static const sp_stage_type encoder_type = {
    .size = sizeof(sp_stage_type),
    .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT | SP_STAGE_INPLACE_SGD,
    .name = "encoder",
    .device = "cuda",
    .doc = ENCODER_DOC,
    .inputs = encoder_inputs,
    .outputs = encoder_outputs,
    .params = encoder_param_table,
    .params_size = sizeof(encoder_params),
    .create = nnc_stage_create,
    .destroy = nnc_stage_destroy,
    .plan = plan,
    .prepare = nnc_stage_prepare,
    .forward = nnc_stage_forward,
    .backward = nnc_stage_backward,
};

static const sp_stage_type *const stages[] = {&encoder_type, NULL};
SP_PLUGIN("encoder", ENCODER_DOC, stages);
