/* SPDX-License-Identifier: MIT
 * to_float.c - the stage `to_float`: uint8 to float32, values kept or scaled to 0..1, memory order kept. */
#include <spcore/plugin.h>

#include "../par.h"

#define BLOCK 65536 /* elements of one item of work */

typedef struct tf_params {
  int32_t scale;
} tf_params;

typedef struct tf_work {
  const uint8_t *in;
  float *out;
  int64_t n;
  float by;
} tf_work;

static int to_float_create(sp_ctx *ctx, const void *params, void **self) {
  (void)ctx;
  *self = (void *)params; /* they live as long as the instance, and there is no state */
  return SP_OK;
}

static void to_float_destroy(void *self) { (void)self; }

static int to_float_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)ctx;
  (void)self;
  plan->out[0].spec[0] = plan->in[0].spec[0];
  plan->out[0].spec[0].dtype = SP_F32;
  return SP_OK;
}

static int convert(void *arg, int64_t item, int worker) {
  const tf_work *w = arg;
  int64_t from = item * BLOCK, to = w->n - from > BLOCK ? from + BLOCK : w->n;
  const uint8_t *restrict in = w->in;
  float *restrict out = w->out, by = w->by;
  (void)worker;
  for (int64_t i = from; i < to; i++) out[i] = (float)in[i] * by;
  return SP_OK;
}

static int to_float_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const tf_params *p = self;
  const sp_tensor *in = io->in[0].t, *out = io->out[0].t;
  tf_work w = {in->data, out->data, 1, p->scale ? 1.0f / 255.0f : 1.0f};
  for (int32_t d = 0; d < in->spec.ndim; d++) w.n *= in->spec.shape[d];
  return par_run(ctx, (w.n + BLOCK - 1) / BLOCK, convert, &w);
}

static const sp_port to_float_inputs[] = {
    {.name = "image", .dtypes = SP_DT(SP_U8), .ndim = -1, .flags = SP_PORT_NOGRAD, .doc = "any shape and order"},
    {.name = NULL}};
static const sp_port to_float_outputs[] = {{.name = "image",
                                            .dtypes = SP_DT(SP_F32),
                                            .ndim = -1,
                                            .flags = SP_PORT_NOGRAD,
                                            .doc = "the same values as float32, same shape and order"},
                                           {.name = NULL}};
static const sp_param to_float_params[] = {
    {.name = "scale",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(tf_params, scale),
     .doc = "multiply by 1/255, so that values are 0..1; otherwise they stay 0..255"},
    {.name = NULL}};

static const sp_stage_type to_float_type = {.size = sizeof(sp_stage_type),
                                            .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                            .name = "to_float",
                                            .device = "cpu",
                                            .doc = "Turns bytes into float32",
                                            .inputs = to_float_inputs,
                                            .outputs = to_float_outputs,
                                            .params = to_float_params,
                                            .params_size = sizeof(tf_params),
                                            .create = to_float_create,
                                            .destroy = to_float_destroy,
                                            .plan = to_float_plan,
                                            .forward = to_float_forward};
static const sp_stage_type *const stages[] = {&to_float_type, NULL};

const sp_plugin spcore_plugin = {.size = sizeof(sp_plugin),
                                 .abi = SP_ABI,
                                 .name = "to_float",
                                 .version = "0.1.0",
                                 .license = "MIT",
                                 .doc = "Bytes to float32",
                                 .stages = stages};
