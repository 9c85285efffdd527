/* SPDX-License-Identifier: MIT
 * widths.h - loops that are compiled once per vector width. All give the same bits: they use the same operations,
 * without fused ones. Needs -ffp-contract=off. */
#ifndef SP_PLUGINS_WIDTHS_H
#define SP_PLUGINS_WIDTHS_H

#include <stdint.h>

#define WIDTHS_INLINE static inline __attribute__((always_inline))

/* From NAME_body(const TYPE *, int64_t), which is WIDTHS_INLINE: NAME_choose() gives the fastest for this processor. */
#if defined(__x86_64__)
#define WIDTHS_OF(NAME, TYPE)                                                                                  \
  static void NAME##_base(const TYPE *a, int64_t i) { NAME##_body(a, i); }                                     \
  __attribute__((target("avx2"))) static void NAME##_avx2(const TYPE *a, int64_t i) { NAME##_body(a, i); }     \
  __attribute__((target("avx512f,avx512dq,prefer-vector-width=512"))) static void NAME##_avx512(const TYPE *a, \
                                                                                                int64_t i) {   \
    NAME##_body(a, i);                                                                                         \
  }                                                                                                            \
  static void (*NAME##_choose(void))(const TYPE *, int64_t) {                                                  \
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return NAME##_avx512;         \
    return __builtin_cpu_supports("avx2") ? NAME##_avx2 : NAME##_base;                                         \
  }
#else
#define WIDTHS_OF(NAME, TYPE)                                              \
  static void NAME##_base(const TYPE *a, int64_t i) { NAME##_body(a, i); } \
  static void (*NAME##_choose(void))(const TYPE *, int64_t) { return NAME##_base; }
#endif

/* The sum of 64 numbers, always in the same order. */
WIDTHS_INLINE double widths_sum(const float *v) {
  double lane[16] = {0};
  for (int i = 0; i < 64; i += 16)
    for (int l = 0; l < 16; l++) lane[l] += v[i + l];
  for (int d = 8; d; d /= 2)
    for (int l = 0; l < d; l++) lane[l] += lane[l + d];
  return lane[0];
}

#endif
