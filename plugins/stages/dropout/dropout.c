/* SPDX-License-Identifier: MIT
 * dropout.c - as torch.nn.Dropout and Dropout2d: what every device shares. */
#include "dropout.h"

int dropout_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const sp_spec *x = &plan->in[0].spec[0];
  const dropout_params *p = self;
  if (x->ndim < (p->maps ? 2 : 1))
    return ctx->host->fail(ctx, SP_E_SHAPE, "'x' has %d dimensions, N x %s... is wanted", x->ndim,
                           p->maps ? "C x " : "");
  if (x->order != SP_ROW_MAJOR && x->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "'x' is neither row-major nor channels-last in memory");
  plan->out[0].spec[0] = *x;
  return SP_OK;
}

drop_shape dropout_shape(const dropout_params *p, const sp_spec *x) {
  drop_shape s = {.n = x->shape[0], .channels = 1, .px = 1, .maps = p->maps, .rows = x->order == SP_CHANNELS_LAST};
  if (x->ndim > 1) s.channels = x->shape[1];
  for (int d = 2; d < x->ndim; d++) s.px *= x->shape[d];
  s.limit = drop_limit(p->p);
  s.scale = drop_scale(p->p);
  return s;
}

const sp_port dropout_inputs[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x ..., of any shape"},
                                  {.name = NULL}};
const sp_port dropout_outputs[] = {
    {.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "0, or x / (1 - p); x where nothing is trained"},
    {.name = NULL}};
const sp_param dropout_param_table[] = {{.name = "p",
                                         .type = SP_PARAM_FLOAT,
                                         .offset = offsetof(dropout_params, p),
                                         .def = 0.5,
                                         .min = 0,
                                         .max = 1,
                                         .doc = "how probable it is that an element, or a map, is dropped"},
                                        {.name = "maps",
                                         .type = SP_PARAM_BOOL,
                                         .offset = offsetof(dropout_params, maps),
                                         .doc = "drop all of a sample's channel or nothing of it"},
                                        {.name = NULL}};
