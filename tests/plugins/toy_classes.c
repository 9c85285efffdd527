/* SPDX-License-Identifier: MIT
 * toy_classes.c - a source of images with one class each: noise,
 * and a brighter quarter that says which of four it is. */
#include <spcore/plugin.h>
#include <spcore/rng.h>

#include <stdlib.h>

enum { SIDE = 16, CLASSES = 4 };

typedef struct params {
  int64_t samples, first;
} params;

typedef struct self {
  const params *p;
  sp_attr attr;
} self;

static const sp_param table[] = {{.name = "samples",
                                  .type = SP_PARAM_INT,
                                  .offset = offsetof(params, samples),
                                  .idef = 22,
                                  .imin = 1,
                                  .imax = 1000000,
                                  .doc = "how many"},
                                 {.name = "first",
                                  .type = SP_PARAM_INT,
                                  .offset = offsetof(params, first),
                                  .imax = 1000000,
                                  .doc = "number of the first one"},
                                 {.name = NULL}};
static const sp_port outputs[] = {
    {.name = "image", .dtypes = SP_DT(SP_F32), .ndim = 4, .flags = SP_PORT_NOGRAD, .doc = "N x 3 x 16 x 16"},
    {.name = "label", .dtypes = SP_DT(SP_I64), .ndim = 1, .flags = SP_PORT_NOGRAD, .doc = "N class numbers"},
    {.name = NULL}};

static int create(sp_ctx *ctx, const void *p, void **out) {
  self *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory");
  s->p = p;
  s->attr = (sp_attr){.name = "classes", .value = CLASSES};
  *out = s;
  return SP_OK;
}

static int plan(sp_ctx *ctx, void *arg, sp_plan *pl) {
  self *s = arg;
  (void)ctx;
  pl->out[0].n = pl->out[1].n = 1;
  pl->out[0].spec[0] = (sp_spec){.dtype = SP_F32, .ndim = 4, .shape = {pl->batch, 3, SIDE, SIDE}};
  pl->out[1].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {pl->batch}};
  pl->attrs = &s->attr;
  pl->n_attrs = 1;
  pl->length = (uint64_t)s->p->samples;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  const self *s = arg;
  float *x = io->out[0].t[0].data;
  int64_t *label = io->out[1].t[0].data;
  (void)ctx;
  for (uint32_t n = 0; n < io->step->n; n++) {
    uint64_t sample = SP_ID_INDEX(io->ids[n]) + (uint64_t)s->p->first;
    label[n] = (int64_t)(sample % CLASSES);
    for (int i = 0; i < 3 * SIDE * SIDE; i++) {
      int y = i / SIDE % SIDE, quarter = y / (SIDE / 2) * 2 + i % SIDE / (SIDE / 2);
      *x++ = sp_rng_float(sp_rng(9, sample, (uint32_t)i).v[0]) - 0.5f + (quarter == label[n] ? 0.7f : 0);
    }
  }
  return SP_OK;
}

static const sp_stage_type type = {.size = sizeof type,
                                   .flags = SP_STAGE_SOURCE,
                                   .name = "toy_classes",
                                   .device = "cpu",
                                   .doc = "Images of four classes",
                                   .outputs = outputs,
                                   .params = table,
                                   .params_size = sizeof(params),
                                   .create = create,
                                   .destroy = free,
                                   .plan = plan,
                                   .forward = forward};
static const sp_stage_type *const stages[] = {&type, NULL};

SP_PLUGIN("toy_classes", "a source of labelled images", stages);
