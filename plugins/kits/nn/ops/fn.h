/* SPDX-License-Identifier: MIT
 * fn.h - NN_FN: a function that loops of the CPU and kernels share. */
#ifndef NN_FN_H
#define NN_FN_H

#ifdef __CUDACC__
#define NN_FN static __host__ __device__ __forceinline__
#else
#define NN_FN static inline __attribute__((always_inline))
#endif

#endif
