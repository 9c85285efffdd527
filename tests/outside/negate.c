/* SPDX-License-Identifier: MIT
 * negate.c - a stage as someone outside the tree writes it, in C: y = gain * -x. */
#define SP_PLUGIN_VERSION "1.0"
#define SP_PLUGIN_LICENSE "MIT"
#include <spcore/plugin.h>

#include <stdlib.h>

struct params {
  double gain;
};

static int create(sp_ctx *ctx, const void *params, void **self) {
  double *gain = malloc(sizeof *gain);
  if (!gain) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory");
  *gain = ((const struct params *)params)->gain;
  *self = gain;
  return SP_OK;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *p) {
  (void)ctx, (void)self;
  p->out[0].spec[0] = p->in[0].spec[0];
  p->out[0].spec[0].order = SP_ROW_MAJOR;
  p->out[0].n = 1;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *x = &io->in[0].t[0], *y = &io->out[0].t[0];
  int64_t n = 1;
  if (x->spec.order != SP_ROW_MAJOR) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "only row-major input");
  for (int i = 0; i < x->spec.ndim; i++) n *= x->spec.shape[i];
  for (int64_t i = 0; i < n; i++) ((float *)y->data)[i] = (float)-*(double *)self * ((const float *)x->data)[i];
  return SP_OK;
}

static const sp_port inputs[] = {
    {.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "what to negate"},
    {.name = NULL},
};
static const sp_port outputs[] = {
    {.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "gain times -x"},
    {.name = NULL},
};
static const sp_param params[] = {
    {.name = "gain", .type = SP_PARAM_FLOAT, .offset = offsetof(struct params, gain), .def = 1, .doc = "factor"},
    {.name = NULL},
};
static const sp_stage_type negate_c = {
    .size = sizeof(sp_stage_type),
    .name = "negate_c",
    .device = "cpu",
    .doc = "Negates and scales",
    .inputs = inputs,
    .outputs = outputs,
    .params = params,
    .params_size = sizeof(struct params),
    .create = create,
    .destroy = free,
    .plan = plan,
    .forward = forward,
};
static const sp_stage_type *const stages[] = {&negate_c, NULL};

SP_PLUGIN("negate_c", "A stage outside the tree", stages);
