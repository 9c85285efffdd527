/* SPDX-License-Identifier: MIT
 * boundary.c - boundaries of masks: ports, parameters and checks. */
#include "boundary.h"

#include <math.h>

#define MAX_CLASSES 4096
#define MAX_SIDE 32768

bnd_size bnd_size_of(const bnd_params *p, const sp_spec *x) {
  double h = (double)x->shape[2], w = (double)x->shape[3];
  bnd_size s = {(int32_t)x->shape[2], (int32_t)x->shape[3], (int32_t)p->tolerance};
  if (!s.tolerance) s.tolerance = (int32_t)ceil(0.008 * sqrt(h * h + w * w));
  return s;
}

int bnd_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const sp_spec *x = &plan->in[BND_IN_LOGITS].spec[0];
  int rc = labels_check(ctx, x, &plan->in[BND_IN_LABELS].spec[0]);
  logit_shape s;
  (void)self;
  if (rc) return rc;
  logit_shape_of(&s, x);
  if (s.classes > MAX_CLASSES || x->shape[2] > MAX_SIDE || x->shape[3] > MAX_SIDE)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%lld classes of %lld x %lld pixels; up to %d of %d x %d are counted",
                           (long long)s.classes, (long long)x->shape[2], (long long)x->shape[3], MAX_CLASSES, MAX_SIDE,
                           MAX_SIDE);
  plan->out[BND_OUT_BOUNDARIES].n = plan->out[BND_OUT_STATUS].n = 1;
  plan->out[BND_OUT_BOUNDARIES].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 2, .shape = {bnd_classes(&s), BND_N}};
  plan->out[BND_OUT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  return SP_OK;
}

const sp_port bnd_inputs[] = {
    {.name = "logits",
     .dtypes = SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_NOGRAD,
     .doc = "N x C x H x W, row-major or channels-last; a single one is class 1 above 0"},
    {.name = "labels", .dtypes = LABEL_DTYPES, .ndim = 3, .flags = SP_PORT_NOGRAD, .doc = "N x H x W, class numbers"},
    {.name = NULL}};
const sp_port bnd_outputs[] = {
    {.name = "boundaries",
     .dtypes = SP_DT(SP_I64),
     .ndim = 2,
     .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
     .doc = "C x 4: predicted boundary pixels, of these near a true one, true ones, of these near a "
            "predicted one"},
    LABEL_PORT_STATUS,
    {.name = NULL}};
const sp_param bnd_param_table[] = {
    {.name = "tolerance",
     .type = SP_PARAM_INT,
     .offset = offsetof(bnd_params, tolerance),
     .idef = 0,
     .imin = 0,
     .imax = 1000,
     .unit = "pixels",
     .doc = "how far apart two boundaries may be; 0: 0.008 of the diagonal, rounded up"},
    LABEL_PARAM_IGNORE(bnd_params, ignore_index),
    {.name = NULL}};
