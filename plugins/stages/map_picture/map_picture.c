/* SPDX-License-Identifier: MIT
 * map_picture.c - the stage `map_picture`: maps of numbers, or how far two are from each other, as colours. */
#include <math.h>

#include <spcore/plugin.h>

#include "../../kits/ramp.h"
#include "../../kits/stateless.h"

typedef struct mp_params {
  double lo, hi;
} mp_params;

enum { IN_MAP, IN_OTHER };

static int64_t sides(const sp_spec *s) {
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->shape[d];
  return n;
}

static int is_map(const sp_spec *s) { return s->ndim == 3 || (s->ndim == 4 && s->shape[1] == 1); }

static int map_picture_plan(sp_ctx *ctx, void *arg, sp_plan *plan) {
  const mp_params *p = arg;
  const sp_spec *s = &plan->in[IN_MAP].spec[0], *other = plan->in[IN_OTHER].n ? plan->in[IN_OTHER].spec : s;
  int64_t h = s->shape[s->ndim - 2], w = s->shape[s->ndim - 1];
  if (!is_map(s) || !is_map(other)) return ctx->host->fail(ctx, SP_E_SHAPE, "maps are N x H x W or N x 1 x H x W");
  if (sides(s) != sides(other) || other->shape[other->ndim - 1] != w)
    return ctx->host->fail(ctx, SP_E_SHAPE, "map and other have different sizes");
  if (!(p->hi > p->lo)) return ctx->host->fail(ctx, SP_E_INVALID, "lo = %g is not below hi = %g", p->lo, p->hi);
  plan->out[0].n = 1;
  plan->out[0].spec[0] =
      (sp_spec){.dtype = SP_U8, .ndim = 4, .order = SP_CHANNELS_LAST, .shape = {s->shape[0], 3, h, w}};
  return SP_OK;
}

static int map_picture_forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  const mp_params *p = arg;
  const sp_tensor *map = &io->in[IN_MAP].t[0];
  const float *v = map->data, *other = io->in[IN_OTHER].n ? io->in[IN_OTHER].t[0].data : NULL;
  size_t n = (size_t)sides(&map->spec), w = (size_t)map->spec.shape[map->spec.ndim - 1];
  size_t h = (size_t)map->spec.shape[map->spec.ndim - 2];
  uint8_t *rgb = io->out[0].t[0].data;
  (void)ctx;
  for (size_t i = 0; i < n; i++, rgb += 3) {
    double x = other ? fabs((double)v[i] - (double)other[i]) : (double)v[i];
    ramp_colour(isfinite(x) ? (float)((x - p->lo) / (p->hi - p->lo)) : NAN, i % w, i / w % h, rgb);
  }
  return SP_OK;
}

static const sp_port map_picture_inputs[] = {
    {.name = "map", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_NOGRAD, .doc = "N x H x W or N x 1 x H x W"},
    {.name = "other",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_NOGRAD | SP_PORT_OPTIONAL,
     .doc = "another one: what is shown is how far both are from each other"},
    {.name = NULL}};
static const sp_port map_picture_outputs[] = {{.name = "image",
                                               .dtypes = SP_DT(SP_U8),
                                               .ndim = 4,
                                               .flags = SP_PORT_NOGRAD,
                                               .doc = "N x 3 x H x W, channels last; grey where there is no value"},
                                              {.name = NULL}};
static const sp_param map_picture_params[] = {{.name = "lo",
                                               .type = SP_PARAM_FLOAT,
                                               .offset = offsetof(mp_params, lo),
                                               .min = -1e300,
                                               .max = 1e300,
                                               .doc = "what is shown in the darkest colour, a violet"},
                                              {.name = "hi",
                                               .type = SP_PARAM_FLOAT,
                                               .offset = offsetof(mp_params, hi),
                                               .def = 1,
                                               .min = -1e300,
                                               .max = 1e300,
                                               .doc = "what is shown in the lightest one, a yellow"},
                                              {.name = NULL}};

static const sp_stage_type map_picture_type = {.size = sizeof(sp_stage_type),
                                               .name = "map_picture",
                                               .device = "cpu",
                                               .flags = SP_STAGE_REENTRANT,
                                               .doc = "Maps of numbers as colours, from dark violet to yellow",
                                               .inputs = map_picture_inputs,
                                               .outputs = map_picture_outputs,
                                               .params = map_picture_params,
                                               .params_size = sizeof(mp_params),
                                               .create = stateless_create,
                                               .destroy = stateless_destroy,
                                               .plan = map_picture_plan,
                                               .forward = map_picture_forward};

static const sp_stage_type *const stages[] = {&map_picture_type, NULL};

SP_PLUGIN("map_picture", "Maps of numbers as colours", stages);
