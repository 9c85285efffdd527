/* SPDX-License-Identifier: MIT
 * encoder_cpu.c - the stage `encoder` on the CPU. */
#include "encoder.h"

#include "../../kits/nn/cpu_stage.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  nn_stage *s = self;
  nn_net net = {0};
  nn_bind in, out[ENCODER_MAX_OUT];
  int n_out = 0, st = encoder_build(ctx, s->params, pl, &net, &in, out, &n_out);
  if (!st) st = nn_cpu_plan(ctx, &s->cpu, pl, &net, &in, 1, out, n_out);
  nn_clear(&net);
  return st;
}

static const sp_stage_type encoder_type = {
    .size = sizeof(sp_stage_type),
    .flags = SP_STAGE_REENTRANT | SP_STAGE_INPLACE_SGD,
    .name = "encoder",
    .device = "cpu",
    .doc = ENCODER_DOC,
    .inputs = encoder_inputs,
    .outputs = encoder_outputs,
    .params = encoder_param_table,
    .params_size = sizeof(encoder_params),
    .create = nn_stage_create,
    .destroy = nn_stage_destroy,
    .plan = plan,
    .prepare = nn_stage_prepare,
    .forward = nn_stage_forward,
    .backward = nn_stage_backward,
};

static const sp_stage_type *const stages[] = {&encoder_type, NULL};
SP_PLUGIN("encoder", ENCODER_DOC, stages);
