/* SPDX-License-Identifier: MIT
 * blur.h - Gaussian blur, one sigma a sample: ports, parameters, checks and weights of a kernel, for every device. */
#ifndef BLUR_H
#define BLUR_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"

#define BLUR_DOC "Blurs images with a Gaussian kernel, each sample with a sigma of its own"
#define BLUR_STATUS_DOC                                                                                              \
  "sample %sample: its number on 'sigmas' is negative or not finite; wire positive ones, or 0 to leave a sample as " \
  "it is"

#define BLUR_MAX 63                     /* pixels of a kernel */
#define BLUR_WEIGHTS (BLUR_MAX / 2 + 1) /* a kernel is symmetric: the middle, then one side */

typedef struct blur_params {
  aug_draws draws;
  sp_ints kernel;
  sp_floats sigma;
} blur_params;

/* What `augment` takes as well. */
#define BLUR_IN_SIGMAS \
  AUG_PORT_DRAWN("sigmas", SP_F32, 1, "the sigma of each sample, in pixels, 0: no blur; not wired: drawn")
#define BLUR_SIGMA(at)                                                                                                \
  {                                                                                                                   \
    .name = "sigma", .type = SP_PARAM_FLOATS, .offset = at, .def_str = "0.1,2", .min_n = 1, .max_n = 2, .unit = "px", \
    .doc = "the standard deviation is drawn uniform between these two; one number: always that"                       \
  }

extern const sp_port blur_inputs[], blur_outputs[];
extern const sp_param blur_param_table[];

/* Whether kernel and sigma are such, and images of h x w large enough for the kernel. */
int blur_check_params(sp_ctx *ctx, const blur_params *p);
int blur_check(sp_ctx *ctx, const blur_params *p, int64_t h, int64_t w);
int blur_plan(sp_ctx *ctx, void *self, sp_plan *plan);

static inline int32_t blur_rx(const blur_params *p) { return (int32_t)p->kernel.v[0] / 2; }
static inline int32_t blur_ry(const blur_params *p) { return (int32_t)p->kernel.v[p->kernel.n - 1] / 2; }
static inline float blur_lo(const blur_params *p) { return (float)p->sigma.v[0]; }
static inline float blur_hi(const blur_params *p) { return (float)p->sigma.v[p->sigma.n - 1]; }

/* The sigma of a sample, if nobody says; 0: the sample stays as it is. */
SP_RNG_FN float blur_draw(const aug_dice *dice, int64_t sample, float lo, float hi) {
  return aug_chance(dice) ? aug_uniform(aug_roll(dice, sample, 0).v[0], lo, hi) : 0.0f;
}

SP_RNG_FN int blur_bad(float sigma) { return !(sigma >= 0 && sigma <= 3.402823466e38f); }

/* exp(-t) for t >= 0 to 1e-11, by operations that have the same bits everywhere, which exp() has not. What is too small
 * to count is 0, so that no weight is denormal. */
SP_RNG_FN double blur_exp(double t) {
  double n, r, p;
  if (!(t < 80)) return 0;
  n = rint(t * 1.4426950408889634);
  r = fma(n, 0.6931471805599453, -t); /* -0.35 .. 0.35 */
  p = 1.0 / 362880;
  p = fma(p, r, 1.0 / 40320);
  p = fma(p, r, 1.0 / 5040);
  p = fma(p, r, 1.0 / 720);
  p = fma(p, r, 1.0 / 120);
  p = fma(p, r, 1.0 / 24);
  p = fma(p, r, 1.0 / 6);
  p = fma(p, r, 0.5);
  p = fma(p, r, 1.0);
  p = fma(p, r, 1.0);
  return ldexp(p, -(int)n);
}

/* How much a pixel i from the middle counts, before all are divided by their sum. */
SP_RNG_FN double blur_bell(int i, float sigma) {
  double s = sigma;
  return blur_exp((double)(i * i) / (2 * s * s));
}

/* One weight more on both sides. */
SP_RNG_FN double blur_sum(double sum, double bell) { return fma(2.0, bell, sum); }

#endif
