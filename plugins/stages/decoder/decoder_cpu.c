/* SPDX-License-Identifier: MIT
 * decoder_cpu.c - the stage `decoder` on the CPU. */
#include "decoder.h"

#include "../../kits/nn/cpu_stage.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  nn_stage *s = self;
  nn_net net = {0};
  nn_bind in[DECODER_MAX_IN], out;
  int n_in = 0, st = decoder_build(ctx, s->params, pl, &net, in, &n_in, &out);
  if (!st) st = nn_cpu_plan(ctx, &s->cpu, pl, &net, in, n_in, &out, 1);
  nn_clear(&net);
  return st;
}

static const sp_stage_type decoder_type = {
    .size = sizeof(sp_stage_type),
    .flags = SP_STAGE_REENTRANT | SP_STAGE_INPLACE_SGD,
    .name = "decoder",
    .device = "cpu",
    .doc = DECODER_DOC,
    .inputs = decoder_inputs,
    .outputs = decoder_outputs,
    .params = decoder_param_table,
    .params_size = sizeof(decoder_params),
    .create = nn_stage_create,
    .destroy = nn_stage_destroy,
    .plan = plan,
    .prepare = nn_stage_prepare,
    .forward = nn_stage_forward,
    .backward = nn_stage_backward,
};

static const sp_stage_type *const stages[] = {&decoder_type, NULL};
SP_PLUGIN("decoder", DECODER_DOC, stages);
