/* SPDX-License-Identifier: MIT
 * add.c - the sum of tensors of one shape, in list order: what every device shares. */
#include "add.h"

#include <string.h>

int add_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const sp_speclist *in = &plan->in[0];
  (void)self;
  if (!in->n) return ctx->host->fail(ctx, SP_E_INVALID, "nothing to add: wire at least one tensor to 'x'");
  for (uint32_t i = 1; i < in->n; i++) {
    const sp_spec *a = &in->spec[0], *b = &in->spec[i];
    if (a->ndim != b->ndim || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape))
      return ctx->host->fail(ctx, SP_E_SHAPE, "tensor %u has another shape than tensor 1", i + 1);
    if (a->order != b->order)
      return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "tensor %u lies in another memory order than tensor 1", i + 1);
  }
  plan->stepless = 1;
  plan->out[0].n = 1;
  plan->out[0].spec[0] = in->spec[0];
  return SP_OK;
}

const sp_port add_inputs[] = {
    {.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_LIST, .doc = "tensors of one shape"},
    {.name = NULL}};
const sp_port add_outputs[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "their sum"}, {.name = NULL}};
