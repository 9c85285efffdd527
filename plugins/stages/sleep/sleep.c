/* SPDX-License-Identifier: MIT
 * sleep.c - passes its input through after a known time; can be told to fail. For tests and for trying strategies. */
#include "sleep.h"

int sleep_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  plan->stepless = ((const sleep_params *)self)->fail_at_step < 0;
  if (plan->in[0].n > plan->out[0].cap)
    return ctx->host->fail(ctx, SP_E_RANGE, "%u tensors, but only %u can be passed on", plan->in[0].n,
                           plan->out[0].cap);
  plan->out[0].n = plan->in[0].n;
  for (uint32_t i = 0; i < plan->in[0].n; i++) plan->out[0].spec[i] = plan->in[0].spec[i];
  return SP_OK;
}

const sp_port sleep_inputs[] = {{.name = "x", .ndim = -1, .flags = SP_PORT_LIST, .doc = "any tensors"}, {.name = NULL}};
const sp_port sleep_outputs[] = {{.name = "y", .ndim = -1, .flags = SP_PORT_LIST, .doc = "copies of them"},
                                 {.name = NULL}};
const sp_param sleep_param_table[] = {
    {.name = "ms",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sleep_params, ms),
     .min = 0,
     .max = 1e6,
     .unit = "ms",
     .doc = "how long forward takes"},
    {.name = "backward_ms",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sleep_params, backward_ms),
     .min = 0,
     .max = 1e6,
     .unit = "ms",
     .doc = "how long backward takes"},
    {.name = "spin",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(sleep_params, spin),
     .doc = "keep a processor busy instead of sleeping; a GPU is kept busy in any case"},
    {.name = "fail_at_step",
     .type = SP_PARAM_INT,
     .offset = offsetof(sleep_params, fail_at_step),
     .idef = -1,
     .imin = -1,
     .imax = INT64_C(1) << 53,
     .doc = "forward fails at this step, on a GPU by a trap; -1: never"},
    {.name = NULL}};
