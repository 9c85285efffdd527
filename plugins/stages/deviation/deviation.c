/* SPDX-License-Identifier: MIT
 * deviation.c - exact sums of differences: ports and checks. */
#include "deviation.h"

#define MAX_COLUMNS 4096

static int known_order(const sp_spec *s) { return s->order == SP_ROW_MAJOR || s->order == SP_CHANNELS_LAST; }

void dev_shape_of(dev_shape *s, const sp_spec *x, const sp_spec *y) {
  s->n = x->shape[0];
  s->columns = x->ndim > 1 ? x->shape[1] : 1;
  s->px = 1;
  for (int d = 2; d < x->ndim; d++) s->px *= x->shape[d];
  s->x_rows = s->px == 1 || x->order == SP_CHANNELS_LAST;
  s->y_rows = s->px == 1 || y->order == SP_CHANNELS_LAST;
}

/* A target N x ... of inputs N x 1 x ...: as if it had that dimension. */
static sp_spec target_of(const sp_spec *x, const sp_spec *y) {
  sp_spec s = *y;
  if (x->ndim < 3 || y->ndim != x->ndim - 1 || x->shape[1] != 1 || y->order != SP_ROW_MAJOR) return s;
  s.ndim = x->ndim;
  s.shape[1] = 1;
  for (int d = 2; d < x->ndim; d++) s.shape[d] = y->shape[d - 1];
  return s;
}

int dev_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const sp_spec *x = &plan->in[DEV_IN_INPUT].spec[0];
  sp_spec own = target_of(x, &plan->in[DEV_IN_TARGET].spec[0]), *y = &own;
  dev_shape s;
  (void)self;
  int fits = x->ndim == y->ndim && x->ndim > 0;
  for (int d = 0; d < x->ndim && fits; d++) fits = x->shape[d] == y->shape[d];
  if (!fits) return ctx->host->fail(ctx, SP_E_SHAPE, "input and target have different shapes");
  if (!known_order(x) || !known_order(y))
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "input or target is neither row-major nor channels-last in memory");
  dev_shape_of(&s, x, y);
  if (s.columns > MAX_COLUMNS)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%lld columns; up to %d are summed", (long long)s.columns, MAX_COLUMNS);
  plan->out[0].n = 1;
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 3, .shape = {s.columns, DEV_ROWS, DEV_LIMBS}};
  return SP_OK;
}

const sp_port dev_inputs[] = {
    {.name = "input",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_NOGRAD,
     .doc = "N x C x ..., row-major or channels-last"},
    {.name = "target",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_NOGRAD,
     .doc = "the same shape, or N x ... of inputs N x 1 x ...; NaN where it is not known, which does not count"},
    {.name = NULL}};
const sp_port dev_outputs[] = {
    {.name = "deviations",
     .dtypes = SP_DT(SP_I64),
     .ndim = 3,
     .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
     .doc = "C x 6 x 24: how many counted and were not finite; sums of |d|, d, d^2, y and y^2, where d is "
            "input - target and y the target, in limbs of 24 bits from 2^-312 on"},
    {.name = NULL}};
