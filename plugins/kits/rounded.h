/* SPDX-License-Identifier: MIT
 * rounded.h - products and sums that are rounded once each: never fused, on a GPU either. On the processor it needs
 * -ffp-contract=off. */
#ifndef SP_PLUGINS_ROUNDED_H
#define SP_PLUGINS_ROUNDED_H

#ifdef __CUDACC__
#define ROUNDED_FN static __host__ __device__ __forceinline__
#else
#define ROUNDED_FN static inline __attribute__((always_inline))
#endif

ROUNDED_FN double rounded_mul(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

ROUNDED_FN double rounded_add(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

#endif
