/* SPDX-License-Identifier: MIT
 * classifier_cuda.c - the stage `classifier` on CUDA. */
#include "classifier.h"

#include "../../kits/nn/cuda_stage.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  nnc_stage *s = self;
  nn_net net = {0};
  nn_bind in, out;
  int st = classifier_build(ctx, s->params, pl, &net, &in, &out);
  if (!st) st = nn_cuda_plan(ctx, &s->cuda, pl, &net, &in, 1, &out, 1);
  nn_clear(&net);
  return st;
}

static const sp_stage_type classifier_type = {
    .size = sizeof(sp_stage_type),
    .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT | SP_STAGE_INPLACE_SGD,
    .name = "classifier",
    .device = "cuda",
    .doc = CLASSIFIER_DOC,
    .inputs = classifier_inputs,
    .outputs = classifier_outputs,
    .params = classifier_param_table,
    .params_size = sizeof(classifier_params),
    .create = nnc_stage_create,
    .destroy = nnc_stage_destroy,
    .plan = plan,
    .prepare = nnc_stage_prepare,
    .forward = nnc_stage_forward,
    .backward = nnc_stage_backward,
};

static const sp_stage_type *const stages[] = {&classifier_type, NULL};
SP_PLUGIN("classifier", CLASSIFIER_DOC, stages);
