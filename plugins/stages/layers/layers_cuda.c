/* SPDX-License-Identifier: MIT
 * layers_cuda.c - the stage `layers` on CUDA. */
#include "layers.h"

#include "../../kits/nn/cuda_stage.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  nnc_stage *s = self;
  nn_net net = {0};
  nn_bind in, out;
  int st = layers_build(ctx, s->params, pl, &net, &in, &out);
  if (!st) st = nn_cuda_plan(ctx, &s->cuda, pl, &net, &in, 1, &out, 1);
  nn_clear(&net);
  return st;
}

static const sp_stage_type layers_type = {
    .size = sizeof(sp_stage_type),
    .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT | SP_STAGE_INPLACE_SGD,
    .name = "layers",
    .device = "cuda",
    .doc = LAYERS_DOC,
    .inputs = layers_inputs,
    .outputs = layers_outputs,
    .params = layers_param_table,
    .params_size = sizeof(layers_params),
    .create = nnc_stage_create,
    .destroy = nnc_stage_destroy,
    .plan = plan,
    .prepare = nnc_stage_prepare,
    .forward = nnc_stage_forward,
    .backward = nnc_stage_backward,
};

static const sp_stage_type *const stages[] = {&layers_type, NULL};
SP_PLUGIN("layers", LAYERS_DOC, stages);
