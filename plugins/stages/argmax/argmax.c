/* SPDX-License-Identifier: MIT
 * argmax.c - logits to labels, the class of the largest value; the first of equals: what every device shares. */
#include "argmax.h"

#include <inttypes.h>

int argmax_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const sp_spec *in = &plan->in[0].spec[0];
  (void)self;
  plan->stepless = 1;
  if (in->order != SP_ROW_MAJOR && in->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "logits must be row-major or channels last");
  if (in->shape[1] < 1 || in->shape[1] > 255)
    return ctx->host->fail(ctx, SP_E_SHAPE, "logits of %" PRId64 " classes; 1 to 255 fit into a byte", in->shape[1]);
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_U8, .ndim = 3, .shape = {in->shape[0], in->shape[2], in->shape[3]}};
  return SP_OK;
}

const sp_port argmax_inputs[] = {
    {.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = 4, .flags = SP_PORT_NOGRAD, .doc = "N x C x H x W"},
    {.name = NULL}};
const sp_port argmax_outputs[] = {{.name = "mask",
                                   .dtypes = SP_DT(SP_U8),
                                   .ndim = 3,
                                   .flags = SP_PORT_NOGRAD,
                                   .doc = "labels 0..C-1, N x H x W; of equal values the first"},
                                  {.name = NULL}};
