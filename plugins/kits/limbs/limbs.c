/* SPDX-License-Identifier: MIT
 * limbs.c - exact sums over pairs: ports, checks and the call. */
#include "limbs.h"

#define MAX_COLUMNS 4096

static int known_order(const sp_spec *s) { return s->order == SP_ROW_MAJOR || s->order == SP_CHANNELS_LAST; }

int limb_plan(sp_ctx *ctx, sp_plan *plan, int rows) {
  const sp_spec *x = &plan->in[LIMB_IN_INPUT].spec[0];
  sp_spec own = target_spec(x, &plan->in[LIMB_IN_TARGET].spec[0]), *y = &own;
  int fits = x->ndim == y->ndim && x->ndim > 0;
  for (int d = 0; d < x->ndim && fits; d++) fits = x->shape[d] == y->shape[d];
  if (!fits) return ctx->host->fail(ctx, SP_E_SHAPE, "input and target have different shapes");
  if (!known_order(x) || !known_order(y))
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "input or target is neither row-major nor channels-last in memory");
  int64_t columns = x->ndim > 1 ? x->shape[1] : 1;
  if (columns > MAX_COLUMNS)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%lld columns; up to %d are summed", (long long)columns, MAX_COLUMNS);
  plan->out[0].n = 1;
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 3, .shape = {columns, rows, LIMBS}};
  return SP_OK;
}

void limb_job_of(limb_job *j, const sp_io *io) {
  const sp_tensor *x = &io->in[LIMB_IN_INPUT].t[0], *y = &io->in[LIMB_IN_TARGET].t[0];
  *j = (limb_job){.x = x->data, .y = y->data, .tables = io->out[0].t[0].data};
  logit_shape_of(&j->s, &x->spec);
  j->y_rows = j->s.px == 1 || y->spec.order == SP_CHANNELS_LAST;
}

const sp_port limb_inputs[] = {
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
