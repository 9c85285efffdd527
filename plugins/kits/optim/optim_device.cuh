/* SPDX-License-Identifier: MIT
 * optim_device.cuh - how a kernel walks over the tensors of a table. */
#ifndef SP_PLUGINS_OPTIM_DEVICE_CUH
#define SP_PLUGINS_OPTIM_DEVICE_CUH

#include "optim_kernels.h"

#include "../cuda/launch.h"

constexpr int OPK_THREADS = 256;

/* The calling block's share; m: of the moments. */
struct opk_share {
  const float *g;
  float *p, *m[OPTIM_MOMENTS];
  int n, tensor, group;
};

static __device__ inline float *opk_from(float *p, int64_t at) { return p ? p + at : NULL; }

static __device__ inline opk_share opk_share_of(const opk_table &t) {
  uint32_t lo = 0, hi = t.n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (t.first[mid] <= blockIdx.x) lo = mid;
    else hi = mid;
  }
  int64_t from = (int64_t)(blockIdx.x - t.first[lo]) * OPK_CHUNK;
  int n = blockIdx.x + 1 == t.first[lo + 1] ? (int)t.tail[lo] : (int)OPK_CHUNK;
  float *const *at = t.at + lo * t.lists;
  opk_share s = {at[0] + from, opk_from(at[1], from), {}, n, (int)lo, t.group[lo]};
#pragma unroll
  for (uint32_t k = 0; k < OPTIM_MOMENTS; k++) s.m[k] = k + 2 < t.lists ? opk_from(at[k + 2], from) : NULL;
  return s;
}

static __device__ inline bool opk_wide(const opk_share &s) {
  uintptr_t bits = (uintptr_t)s.g | (uintptr_t)s.p;
#pragma unroll
  for (int k = 0; k < OPTIM_MOMENTS; k++) bits |= (uintptr_t)s.m[k];
  return (bits & (sizeof(float4) - 1)) == 0;
}

static __device__ inline bool opk_bad(float v) { return (__float_as_uint(v) & 0x7fffffffu) >= 0x7f800000u; }

/* Of a block, always in the same order; the result is in thread 0. Two in a row need a __syncthreads() between them. */
static __device__ inline double opk_block_sum(double v) {
  __shared__ double part[OPK_THREADS / 32];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < OPK_THREADS / 32; w++) v += part[w];
  return v;
}

/* An update of all tensors of a table. RULE has step(g, p, m), which changes p and the moments m[], of which MOMENTS
 * are there, and load(head) for what the device knows of the tensor's group. Where the run is to stop for gradients
 * that are not finite, status says so: whoever writes it writes the same. */
template <int MOMENTS, typename RULE>
static __global__ void __launch_bounds__(OPK_THREADS)
    opk_update(const opk_table t, RULE rule, const opk_head *head, int64_t *status) {
  if (head->skip) return;
  opk_share s = opk_share_of(t);
  bool bad = false;
  int quads = opk_wide(s) ? s.n / 4 : 0;
  rule.load(head[s.group]);
  for (int i = threadIdx.x; i < quads; i += OPK_THREADS) {
    float4 g = ((const float4 *)s.g)[i], p = ((const float4 *)s.p)[i], m[MOMENTS + 1] = {};
#pragma unroll
    for (int k = 0; k < MOMENTS; k++) m[k] = ((const float4 *)s.m[k])[i];
    bad = bad || opk_bad(g.x) || opk_bad(g.y) || opk_bad(g.z) || opk_bad(g.w);
#define OPK_STEP(c)                                    \
  do {                                                 \
    float one[MOMENTS + 1] = {};                       \
    for (int k = 0; k < MOMENTS; k++) one[k] = m[k].c; \
    rule.step(g.c, p.c, one);                          \
    for (int k = 0; k < MOMENTS; k++) m[k].c = one[k]; \
  } while (0)
    OPK_STEP(x);
    OPK_STEP(y);
    OPK_STEP(z);
    OPK_STEP(w);
#undef OPK_STEP
    ((float4 *)s.p)[i] = p;
#pragma unroll
    for (int k = 0; k < MOMENTS; k++) ((float4 *)s.m[k])[i] = m[k];
  }
  for (int i = 4 * quads + threadIdx.x; i < s.n; i += OPK_THREADS) {
    float p = s.p[i], m[MOMENTS + 1] = {};
#pragma unroll
    for (int k = 0; k < MOMENTS; k++) m[k] = s.m[k][i];
    bad = bad || opk_bad(s.g[i]);
    rule.step(s.g[i], p, m);
    s.p[i] = p;
#pragma unroll
    for (int k = 0; k < MOMENTS; k++) s.m[k][i] = m[k];
  }
  if (__syncthreads_or(bad) && threadIdx.x == 0) {
    status[0] = SP_E_DATA;
    status[2] = status[3] = 1;
  }
}

#endif
