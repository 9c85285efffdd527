/* SPDX-License-Identifier: MIT
 * skinny.c - products with few rows: bound by reading the weights once, where a general product packs them first.
 *
 * Written on vectors of 16 floats. A compiler takes those apart before it clones functions for several instruction
 * sets, so the code is included once per set and chosen here. */
#include "vec.h"

typedef float v16 __attribute__((vector_size(64), aligned(4)));

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define NN_AVX2
/* The frames that GCC 12's AddressSanitizer keeps off the stack are aligned to 32 bytes, even for vectors of 64. */
#ifndef __SANITIZE_ADDRESS__
#define NN_AVX512
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,fma")
#define NN_FN(name) name##_avx512
#include "skinny.inc"
#undef NN_FN
#pragma GCC pop_options
#endif
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define NN_FN(name) name##_avx2
#include "skinny.inc"
#undef NN_FN
#pragma GCC pop_options
#endif

#define NN_FN(name) name##_any
#include "skinny.inc"
#undef NN_FN

void nn_skinny(float *y, const float *x, const float *w, int64_t m, int64_t n0, int64_t n1, int64_t k, int64_t ldy) {
#ifdef NN_AVX512
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    skinny_avx512(y, x, w, m, n0, n1, k, ldy);
    return;
  }
#endif
#ifdef NN_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    skinny_avx2(y, x, w, m, n0, n1, k, ldy);
    return;
  }
#endif
  skinny_any(y, x, w, m, n0, n1, k, ldy);
}
