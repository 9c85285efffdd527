/* SPDX-License-Identifier: MIT
 * resize.h - images and masks at another size: ports, parameters and weights, for every device.
 *
 * Output i of an axis is the weighted mean of n inputs from lo on. Where the support is 1 (an axis that grows, or no
 * antialiasing) there are at most two, and the weights of the general way add up to 1 without rounding: resize_two
 * gives them without sum and division. Bicubic weights are those of plugins/kits/cubic.
 */
#ifndef RESIZE_H
#define RESIZE_H

#include <math.h>

#include <spcore/rng.h>

#include "../../kits/aug/aug.h"
#include "../../kits/cubic/cubic.h"

#define RESIZE_DOC "Scales images bilinearly or bicubically, with antialiasing, and masks to the nearest pixel"

/* A product that no compiler fuses with what follows: cpu and kernels get the same weights. */
#ifdef __CUDA_ARCH__
#define RESIZE_MUL(a, b) __fmul_rn(a, b)
#else
#define RESIZE_MUL(a, b) ((a) * (b))
#endif

/* What an output is: bilinear of the nearest two, of all that it covers, or bicubic of all. */
enum { RESIZE_NEAR, RESIZE_MEAN, RESIZE_CUBIC };

/* The parameters that say so, for every stage that has them. */
enum { RESIZE_BILINEAR, RESIZE_BICUBIC };
typedef struct resize_filter {
  int32_t interpolation, antialias;
} resize_filter;
extern const char *const resize_interpolations[];
#define RESIZE_FILTER_PARAMS(holder, member)                                                                           \
  {.name = "interpolation",                                                                                            \
   .type = SP_PARAM_CHOICE,                                                                                            \
   .offset = offsetof(holder, member.interpolation),                                                                   \
   .choices = resize_interpolations,                                                                                   \
   .doc = "of images; bicubic with a = -1/2: bytes as Pillow, floats as PyTorch with antialiasing"},                   \
  {                                                                                                                    \
    .name = "antialias", .type = SP_PARAM_BOOL, .offset = offsetof(holder, member.antialias), .idef = 1,               \
    .doc =                                                                                                             \
        "where images shrink, a pixel is the mean of all that it covers; otherwise of the nearest 2 x 2 alone, which " \
        "bicubic cannot"                                                                                               \
  }

typedef struct resize_params {
  sp_ints size;
  resize_filter filter;
} resize_params;

extern const sp_port resize_inputs[], resize_outputs[];
extern const sp_param resize_param_table[];

int resize_check(sp_ctx *ctx, const resize_params *p, sp_plan *plan, int64_t *h, int64_t *w);
/* Refuses what goes together with nothing. */
int resize_check_filter(sp_ctx *ctx, const resize_filter *p);
static inline int resize_how(const resize_filter *p) {
  return p->interpolation == RESIZE_BICUBIC ? RESIZE_CUBIC : p->antialias ? RESIZE_MEAN : RESIZE_NEAR;
}

/* One axis; inv is 1 / support. Where `how` is RESIZE_CUBIC the weights are those of `cubic`, and support is that of
 * theirs. */
typedef struct resize_axis {
  int32_t in, out, how;
  float scale, support, inv;
  cubic_axis cubic;
} resize_axis;

SP_RNG_FN resize_axis resize_axis_of(int32_t in, int32_t out, int how) {
  resize_axis a = {in, out, how, (float)in / (float)out, 1.0f, 1.0f, {0, 0, 0.0, 0.0, 0.0}};
  if (how && a.scale > 1.0f) {
    a.support = a.scale;
    a.inv = 1.0f / a.support;
  }
  if (how == RESIZE_CUBIC) {
    a.cubic = cubic_axis_of(in, out);
    a.support *= 2.0f;
  }
  return a;
}

SP_RNG_FN float resize_centre(const resize_axis *a, int32_t i) { return RESIZE_MUL(a->scale, (float)i + 0.5f); }

/* The inputs lo .. lo + n - 1 of an output; never outside of the axis and never none, whatever is rounded. */
SP_RNG_FN void resize_span(const resize_axis *a, float centre, int32_t *lo, int32_t *n) {
  int32_t first = (int32_t)(centre - a->support + 0.5f), end = (int32_t)(centre + a->support + 0.5f);
  first = first < 0 ? 0 : first > a->in - 1 ? a->in - 1 : first;
  end = end > a->in ? a->in : end;
  *lo = first;
  *n = end > first ? end - first : 1;
}

/* Weight of input x, before all are divided by their sum. */
SP_RNG_FN float resize_tap(const resize_axis *a, float centre, int32_t x) {
  float d = fabsf(RESIZE_MUL((float)x - centre + 0.5f, a->inv));
  return d < 1.0f ? 1.0f - d : 0.0f;
}

SP_RNG_FN float resize_total(const resize_axis *a, float centre, int32_t lo, int32_t n) {
  float total = 0.0f;
  int32_t k;
  for (k = 0; k < n; k++) total += resize_tap(a, centre, lo + k);
  return total > 0.0f ? total : 1.0f;
}

/* Support 1: input lo counts 1 - second, lo + 1 counts `second`; 0 where there is none. Without antialiasing PyTorch
 * does not round the place, only what it makes of it: in double it is exact. */
SP_RNG_FN int32_t resize_two(const resize_axis *a, int32_t i, float *second) {
  int32_t lo;
  if (a->how) {
    float from = resize_centre(a, i) - 0.5f;
    lo = from < (float)(a->in - 1) ? (int32_t)from : a->in - 1;
    *second = from - (float)lo;
  } else {
    double from = (double)a->scale * ((double)i + 0.5) - 0.5;
    lo = from < a->in - 1 ? (int32_t)from : a->in - 1;
    *second = (float)(from - lo);
  }
  *second = *second > 0.0f && lo + 1 < a->in ? *second : 0.0f;
  return lo;
}

/* Of masks: the input that output i shows. */
SP_RNG_FN int32_t resize_nearest(const resize_axis *a, int32_t i) {
  int32_t x = (int32_t)RESIZE_MUL((float)i, a->scale);
  return x < a->in - 1 ? x : a->in - 1;
}

#endif
