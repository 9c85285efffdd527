/* SPDX-License-Identifier: MIT
 * to_float.c - uint8 to float32, values kept or scaled to 0..1, memory order kept: what every device shares. */
#include "to_float.h"

int to_float_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)ctx;
  (void)self;
  plan->out[0].spec[0] = plan->in[0].spec[0];
  plan->out[0].spec[0].dtype = SP_F32;
  plan->stepless = 1;
  return SP_OK;
}

float to_float_factor(const void *self) { return ((const to_float_params *)self)->scale ? 1.0f / 255.0f : 1.0f; }

const sp_port to_float_inputs[] = {
    {.name = "image", .dtypes = SP_DT(SP_U8), .ndim = -1, .flags = SP_PORT_NOGRAD, .doc = "any shape and order"},
    {.name = NULL}};
const sp_port to_float_outputs[] = {{.name = "image",
                                     .dtypes = SP_DT(SP_F32),
                                     .ndim = -1,
                                     .flags = SP_PORT_NOGRAD,
                                     .doc = "the same values as float32, same shape and order"},
                                    {.name = NULL}};
const sp_param to_float_param_table[] = {
    {.name = "scale",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(to_float_params, scale),
     .doc = "multiply by 1/255, so that values are 0..1; otherwise they stay 0..255"},
    {.name = NULL}};
