/* SPDX-License-Identifier: MIT
 * color_jitter.c - ports, parameters and checks of the stage `color_jitter`, for every device. */
#include "color_jitter.h"

const sp_port jitter_inputs[] = {
    AUG_PORT_IMAGES("images of one height and width, N x C x H x W with C 3 (RGB) or 1, row-major or channels-last"),
    AUG_IN_MASKS,
    AUG_PORT_DRAWN(
        "factors", SP_F32, 2,
        "what to do, N x 8: factors of brightness, contrast and saturation, the turn of the hue, and these four, "
        "counted from 0, in the order they are done; a neutral 1, 1, 1 or 0 is left out; not wired: drawn"),
    {.name = NULL}};
const sp_port jitter_outputs[] = {
    AUG_PORT_IMAGES("the images, of the same type and order"),
    AUG_PORT_MASKS("the masks as they were"),
    AUG_PORT_DRAWN("factors", SP_F32, 2, "what was done, N x 8, as on the input of this name"),
    AUG_PORT_STATUS,
    {.name = NULL}};

#define FACTOR(op, word, least, most, words)                                                                \
  {                                                                                                         \
    .name = word, .type = SP_PARAM_FLOATS,                                                                  \
    .offset = offsetof(jitter_params, range) + (size_t)(op) * sizeof(sp_floats), .min = least, .max = most, \
    .def_str = "0", .min_n = 1, .max_n = 2, .doc = words                                                    \
  }
#define MOST 1e6 /* no picture needs more, and no product of it overflows */

const sp_param jitter_param_table[] = {
    FACTOR(JITTER_BRIGHTNESS, "brightness", 0, MOST,
           "factor uniform in max(0, 1 - b)..1 + b, or in {lo, hi}; 0: brightness stays"),
    FACTOR(JITTER_CONTRAST, "contrast", 0, MOST,
           "factor uniform in max(0, 1 - c)..1 + c, or in {lo, hi}; 0: contrast stays"),
    FACTOR(JITTER_SATURATION, "saturation", 0, MOST,
           "factor uniform in max(0, 1 - s)..1 + s, or in {lo, hi}; 0: saturation stays"),
    FACTOR(JITTER_HUE, "hue", -0.5, 0.5,
           "turn of the colour circle, uniform in -h..h or in {lo, hi}, 1 is once around; 0: hue stays"),
    {.name = "max",
     .type = SP_PARAM_INT,
     .offset = offsetof(jitter_params, max),
     .idef = 1,
     .imin = 1,
     .imax = 255,
     .doc = "what white is in float images: 1, or 255 as to_float gives it without scale; bytes have 255 anyway"},
    AUG_DRAW_PARAMS(jitter_params, draws),
    {.name = NULL}};

static const char *name_of(int op) { return jitter_param_table[op].name; }

int jitter_create(sp_ctx *ctx, const void *params, void **self) {
  const jitter_params *p = params;
  for (int op = 0; op < JITTER_OPS; op++) {
    const sp_floats *r = &p->range[op];
    if (r->n == 1 && r->v[0] < 0)
      return ctx->host->fail(ctx, SP_E_RANGE, "parameter '%s': %g is below 0; one number is how far to either side",
                             name_of(op), r->v[0]);
    if (r->n == 2 && r->v[0] > r->v[1])
      return ctx->host->fail(ctx, SP_E_RANGE, "parameter '%s': {%g, %g} ends before it begins; write {lo, hi}",
                             name_of(op), r->v[0], r->v[1]);
  }
  if (p->max != 1 && p->max != 255)
    return ctx->host->fail(ctx, SP_E_RANGE, "parameter 'max': %lld is neither 1 nor 255", (long long)p->max);
  return stateless_create(ctx, params, self);
}

void jitter_ranges_of(const jitter_params *p, jitter_ranges *ranges) {
  for (int op = 0; op < JITTER_OPS; op++) {
    const sp_floats *r = &p->range[op];
    double centre = (double)jitter_neutral(op), lo = r->n == 2 ? r->v[0] : centre - r->v[0];
    if (op != JITTER_HUE && lo < 0) lo = 0;
    ranges->lo[op] = (float)lo;
    ranges->hi[op] = (float)(r->n == 2 ? r->v[1] : centre + r->v[0]);
  }
}

int jitter_means(const jitter_params *p, const void *given) {
  jitter_ranges r;
  jitter_ranges_of(p, &r);
  return given || r.lo[JITTER_CONTRAST] != 1.0f || r.hi[JITTER_CONTRAST] != 1.0f;
}

int jitter_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  int64_t h, w;
  int rc = aug_plan_in(ctx, plan, &h, &w);
  (void)self;
  if (rc) return rc;
  const sp_speclist *images = &plan->in[AUG_IMAGES];
  for (uint32_t i = 0; i < images->n; i++)
    if (images->spec[i].shape[1] != 1 && images->spec[i].shape[1] != 3)
      return ctx->host->fail(
          ctx, SP_E_SHAPE,
          "wrong channel count: image %u has %lld channels, but colours need 3 (RGB) or 1 (grey); leave "
          "color_jitter out",
          i + 1, (long long)images->spec[i].shape[1]);
  if ((rc = aug_plan_out(plan, h, w, 0)) || (rc = aug_plan_drawn(ctx, plan, SP_F32, JITTER_COLUMNS, "factors")))
    return rc;
  /* Behind the factors: the sums of each image's rows, or of a kernel's blocks, and the means or what a kernel drew. */
  size_t sums = (size_t)(h > JITTER_PARTS ? h : JITTER_PARTS);
  plan->scratch_bytes += (size_t)images->n * (size_t)images->spec->shape[0] * (sums + JITTER_KEPT) * sizeof(double);
  return SP_OK;
}
