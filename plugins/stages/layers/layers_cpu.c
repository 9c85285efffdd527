/* SPDX-License-Identifier: MIT
 * layers_cpu.c - the stage `layers` on the CPU. */
#include "layers.h"

#include "../../kits/nn/cpu_stage.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  nn_stage *s = self;
  nn_net net = {0};
  nn_bind in, out;
  int st = layers_build(ctx, s->params, pl, &net, &in, &out);
  if (!st) st = nn_cpu_plan(ctx, &s->cpu, pl, &net, &in, 1, &out, 1);
  nn_clear(&net);
  return st;
}

static const sp_stage_type layers_type = {
    .size = sizeof(sp_stage_type),
    .flags = SP_STAGE_REENTRANT | SP_STAGE_INPLACE_SGD,
    .name = "layers",
    .device = "cpu",
    .doc = LAYERS_DOC,
    .inputs = layers_inputs,
    .outputs = layers_outputs,
    .params = layers_param_table,
    .params_size = sizeof(layers_params),
    .create = nn_stage_create,
    .destroy = nn_stage_destroy,
    .plan = plan,
    .prepare = nn_stage_prepare,
    .forward = nn_stage_forward,
    .backward = nn_stage_backward,
};

static const sp_stage_type *const stages[] = {&layers_type, NULL};
SP_PLUGIN("layers", LAYERS_DOC, stages);
