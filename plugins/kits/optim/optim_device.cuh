/* SPDX-License-Identifier: MIT
 * optim_device.cuh - how a kernel walks over the tensors of a table. */
#ifndef SP_PLUGINS_OPTIM_DEVICE_CUH
#define SP_PLUGINS_OPTIM_DEVICE_CUH

#include "optim_kernels.h"

#include "../cuda/launch.h"

constexpr int OPK_THREADS = 256;

/* The calling block's share. */
struct opk_share {
  const float *g;
  float *p, *m, *v;
  int n, group;
};

static __device__ inline float *opk_from(float *p, int64_t at) { return p ? p + at : NULL; }

static __device__ inline opk_share opk_share_of(const opk_table &t) {
  uint32_t lo = 0, hi = t.n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (t.first[mid] <= blockIdx.x) lo = mid;
    else hi = mid;
  }
  int64_t at = (int64_t)(blockIdx.x - t.first[lo]) * OPK_CHUNK;
  int n = blockIdx.x + 1 == t.first[lo + 1] ? (int)t.tail[lo] : (int)OPK_CHUNK;
  return {t.g[lo] + at, opk_from(t.p[lo], at), opk_from(t.m[lo], at), opk_from(t.v[lo], at), n, t.group[lo]};
}

static __device__ inline bool opk_wide(const opk_share &s) {
  return (((uintptr_t)s.g | (uintptr_t)s.p | (uintptr_t)s.m | (uintptr_t)s.v) & (sizeof(float4) - 1)) == 0;
}

static __device__ inline bool opk_bad(float v) { return (__float_as_uint(v) & 0x7fffffffu) >= 0x7f800000u; }

/* An update of all tensors of a table. RULE has step(g, p, m, v), which changes p and the moments, of which MOMENTS are
 * there, and load(head) for what the device knows of the tensor's group. Where the run is to stop for gradients
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
    float4 g = ((const float4 *)s.g)[i], p = ((const float4 *)s.p)[i], m = {}, v = {};
    if (MOMENTS > 0) m = ((const float4 *)s.m)[i];
    if (MOMENTS > 1) v = ((const float4 *)s.v)[i];
    bad = bad || opk_bad(g.x) || opk_bad(g.y) || opk_bad(g.z) || opk_bad(g.w);
    rule.step(g.x, p.x, m.x, v.x);
    rule.step(g.y, p.y, m.y, v.y);
    rule.step(g.z, p.z, m.z, v.z);
    rule.step(g.w, p.w, m.w, v.w);
    ((float4 *)s.p)[i] = p;
    if (MOMENTS > 0) ((float4 *)s.m)[i] = m;
    if (MOMENTS > 1) ((float4 *)s.v)[i] = v;
  }
  for (int i = 4 * quads + threadIdx.x; i < s.n; i += OPK_THREADS) {
    float p = s.p[i], m = 0, v = 0;
    if (MOMENTS > 0) m = s.m[i];
    if (MOMENTS > 1) v = s.v[i];
    bad = bad || opk_bad(s.g[i]);
    rule.step(s.g[i], p, m, v);
    s.p[i] = p;
    if (MOMENTS > 0) s.m[i] = m;
    if (MOMENTS > 1) s.v[i] = v;
  }
  if (__syncthreads_or(bad) && threadIdx.x == 0) {
    status[0] = SP_E_DATA;
    status[2] = status[3] = 1;
  }
}

#endif
