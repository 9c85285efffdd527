/* SPDX-License-Identifier: MIT
 * point.h - a number's loss and its slope, for C and for kernels: after what defines exp_neg() and log1p_unit(). */
#ifndef SP_PLUGINS_POINT_H
#define SP_PLUGINS_POINT_H

#include <math.h>

#include "pointwise.h"

#ifdef SP_LAUNCH
#define POINT_FN static __device__ inline
#else
#define POINT_FN static inline __attribute__((always_inline))
#endif

/* 1 / v of 1 <= v <= 2. A kernel's division looks first whether a number is far from where floats end, and then takes
 * these steps. */
POINT_FN float point_inverse(float v) {
#ifdef __CUDACC__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v));
  return __fmaf_rn(y, __fmaf_rn(-v, y, 1.0f), y);
#else
  return 1.0f / v;
#endif
}

/* What the logits u and -u have in common: with e = exp(-|u|), 1 / (1 + e), the rest to 1, and log(1 + e). */
typedef struct point_side {
  float most, least, log;
} point_side;

POINT_FN point_side point_side_of(float u) {
  float e = exp_neg(-fabsf(u)), most = point_inverse(1.0f + e);
  point_side s = {most, e * most, log1p_unit(e)};
  return s;
}

/* Of the logit u: 1 / (1 + exp(-u)), the rest to 1, and -log of it; none of them loses its digits. */
typedef struct point_odds {
  float yes, no, cost;
} point_odds;

POINT_FN point_odds point_odds_of(point_side s, float u) {
  point_odds o = {u < 0 ? s.least : s.most, u < 0 ? s.most : s.least, s.log + (u < 0 ? -u : 0.0f)};
  return o;
}

/* k * (1 - p)^gamma * -log p, where p is the odds of what is true: of 1 or of 0. power: (1 - p)^gamma. */
POINT_FN float point_focal_of(const point_job *j, point_odds o, float power, float t, float *slope) {
  float k = (t != 0 ? j->one : j->zero) * power, down = k * (j->gamma * o.yes * o.cost + o.no);
  *slope = t != 0 ? -down : down;
  return k * o.cost;
}

POINT_FN float point_focal(const point_job *j, float x, float t, float *slope) {
  float u = t != 0 ? x : -x;
  point_odds o = point_odds_of(point_side_of(u), u);
  return point_focal_of(j, o, powf(o.no, j->gamma), t, slope);
}

POINT_FN float point_focal_2(const point_job *j, float x, float t, float *slope) {
  float u = t != 0 ? x : -x;
  point_odds o = point_odds_of(point_side_of(u), u);
  return point_focal_of(j, o, o.no * o.no, t, slope);
}

POINT_FN float point_bce(const point_job *j, float x, float t, float *slope) {
  point_side s = point_side_of(x);
  point_odds yes = point_odds_of(s, x), no = point_odds_of(s, -x);
  *slope = (1 - t) * no.no - j->one * t * yes.no;
  return (1 - t) * no.cost + j->one * t * yes.cost;
}

POINT_FN float point_plain(float x, float t, float *slope) {
  float d = x - t;
  *slope = 2 * d;
  return d * d;
}

POINT_FN float point_square(const point_job *j, float x, float t, float *slope) {
  float d = x - t, size = fabsf(d), sign = d > 0 ? 1.0f : d < 0 ? -1.0f : 0.0f;
  if (j->l.known && t != t) {
    *slope = 0;
    return 0;
  }
  if (j->cost == POINT_D_SQUARE) return point_plain(x, t, slope);
  if (j->cost == POINT_D_SIZE || size > j->delta) {
    float steep = j->cost == POINT_D_SIZE ? 1.0f : j->delta;
    *slope = d == d ? steep * sign : d;
    return j->cost == POINT_D_SIZE ? size : steep * (size - 0.5f * steep);
  }
  *slope = d;
  return 0.5f * d * d;
}

POINT_FN float point_of(const point_job *j, int kind, float x, float t, float *slope) {
  if (kind == POINT_FOCAL) return point_focal(j, x, t, slope);
  if (kind == POINT_FOCAL_2) return point_focal_2(j, x, t, slope);
  if (kind == POINT_PLAIN) return point_plain(x, t, slope);
  return kind == POINT_BCE ? point_bce(j, x, t, slope) : point_square(j, x, t, slope);
}

#endif
