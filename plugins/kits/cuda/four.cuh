/* SPDX-License-Identifier: MIT
 * four.cuh - four floats side by side, of which n are there: in one piece where all are, and `wide`: they lie on 16
 * bytes. */
#ifndef SPCORE_CUDA_FOUR_CUH
#define SPCORE_CUDA_FOUR_CUH

#include "launch.h"

static __device__ __forceinline__ void load_four(float (&v)[4], const float *from, int n, int wide) {
  if (wide && n == 4) {
    float4 four = *(const float4 *)from;
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) v[k] = k < n ? from[k] : 0.0f;
}

/* add: to what is there. */
static __device__ __forceinline__ void put_four(float *to, const float (&v)[4], int n, int wide, int add) {
  float made[4] = {v[0], v[1], v[2], v[3]}, old[4];
  if (add) {
    load_four(old, to, n, wide);
#pragma unroll
    for (int k = 0; k < 4; k++) made[k] = __fadd_rn(old[k], v[k]);
  }
  if (wide && n == 4) {
    *(float4 *)to = make_float4(made[0], made[1], made[2], made[3]);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++)
    if (k < n) to[k] = made[k];
}

#endif
