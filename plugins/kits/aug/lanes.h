/* SPDX-License-Identifier: MIT
 * lanes.h - several numbers at a time on the CPU, for loops whose comparisons keep a compiler from making vectors.
 * Every lane is rounded as one number is, so results depend neither on the width of the processor's vectors nor on
 * how many lanes there are: eight, or as many as LANES says. Functions that use them are AUG_VEC, or LANES_VEC where
 * much is computed of each number: then sixteen lanes are one vector of processors that have those. Bytes go in and
 * out by plain loops over an array, which compilers do well.
 */
#ifndef SP_PLUGINS_AUG_LANES_H
#define SP_PLUGINS_AUG_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* all of it is inlined: no call passes a vector */
#endif

#include "cpu.h"

#ifndef LANES
#define LANES 8
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LANES_VEC __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LANES_VEC
#endif

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t lane_ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t lane_words __attribute__((vector_size(4 * LANES)));

#define LANES_FN static inline __attribute__((always_inline))

LANES_FN lanes lanes_of(const float *x) {
  lanes v;
  memcpy(&v, x, sizeof v);
  return v;
}
LANES_FN void lanes_to(float *y, lanes v) { memcpy(y, &v, sizeof v); }
LANES_FN lane_words lanes_words(const uint32_t *x) {
  lane_words v;
  memcpy(&v, x, sizeof v);
  return v;
}
LANES_FN lanes lanes_all(float v) { return v - (lanes){0}; }

/* The first n < LANES of an array; the rest is 0. */
LANES_FN lanes lanes_some(const float *x, int64_t n) {
  lanes v = {0};
  memcpy(&v, x, (size_t)n * sizeof *x);
  return v;
}
LANES_FN void lanes_some_to(float *y, lanes v, int64_t n) { memcpy(y, &v, (size_t)n * sizeof *y); }

/* yes: what a comparison of lanes gives, 0 or -1. */
LANES_FN lanes lanes_if(lane_ints yes, lanes a, lanes b) {
  return (lanes)((yes & (lane_ints)a) | (~yes & (lane_ints)b));
}
LANES_FN lane_ints lanes_int_if(lane_ints yes, lane_ints a, lane_ints b) { return (yes & a) | (~yes & b); }
/* a < b ? a : b, and so on, as it is written for one number: of NaN the second. */
LANES_FN lanes lanes_min(lanes a, lanes b) { return lanes_if(a < b, a, b); }
LANES_FN lanes lanes_max(lanes a, lanes b) { return lanes_if(a > b, a, b); }

LANES_FN lane_ints lanes_ints(lanes v) { return __builtin_convertvector(v, lane_ints); } /* towards 0 */
LANES_FN lanes lanes_floats(lane_ints v) { return __builtin_convertvector(v, lanes); }
/* The nearest whole number, half to even, of |v| < 2^22. */
LANES_FN lanes lanes_nearest(lanes v) { return (v + 12582912.0f) - 12582912.0f; }

LANES_FN lanes lanes_sqrt(lanes v) {
  for (int l = 0; l < LANES; l++) v[l] = sqrtf(v[l]);
  return v;
}

#endif
