/* SPDX-License-Identifier: MIT
 * kit.cuh - what the kernels of networks share: loads and stores of several numbers, pixel orders, sums of pieces.
 */
#ifndef NN_CUDA_KIT_CUH
#define NN_CUDA_KIT_CUH

#include "../../cuda/launch.h"
#include "kernels.h"

#include <algorithm>
#include <cuda_bf16.h>

namespace nnk {

enum { PLANAR = -1 };

__host__ __device__ inline int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
__host__ __device__ inline int64_t pixels(const nnk_map &m) { return m.h * m.w; }
__host__ __device__ inline int64_t elements(const nnk_map &m) { return m.n * m.c * m.h * m.w; }
inline size_t bytes_of(int elt) { return elt == NNK_BF16 ? 2 : 4; }
inline int launched() { return static_cast<int>(cudaPeekAtLastError()); }
inline int refused() { return static_cast<int>(cudaErrorInvalidValue); }

/* How many numbers (at most v: 8, 4, 2 or 1) a thread may move at once where runs of `unit` numbers begin at p; 8 of
 * float32 are two accesses. */
inline int access(int v, const void *p, int elt, int64_t unit) {
  auto bytes = [&] { return std::min(static_cast<size_t>(v) * bytes_of(elt), sizeof(float4)); };
  while (v > 1 && (unit % v || reinterpret_cast<uintptr_t>(p) % bytes())) v /= 2;
  return v;
}
inline int access(int v, const nnk_map *m, int64_t unit) { return m ? access(v, m->p, m->elt, unit) : v; }
/* What fills an access of such a map. */
inline int widest(const nnk_map *m) { return m->elt == NNK_BF16 ? 8 : 4; }

/* Whether two pixel orders are the same for this map. */
inline bool same_order(const nnk_map *a, const nnk_map *b) {
  bool flat = a->c == 1 && a->layout <= 0 && b->layout <= 0;
  return a->layout == b->layout || flat || pixels(*a) == 1;
}

/* ---- loads and stores of V numbers of either type; `i` counts numbers ---- */
__device__ inline float low_bf16(uint32_t two) { return __uint_as_float(two << 16); }
__device__ inline float high_bf16(uint32_t two) { return __uint_as_float(two & 0xffff0000u); }
__device__ inline uint32_t two_bf16(float a, float b) {
  uint32_t low = __bfloat16_as_ushort(__float2bfloat16_rn(a)), high = __bfloat16_as_ushort(__float2bfloat16_rn(b));
  return low | high << 16;
}

template <int V> __device__ inline void load(float *v, const float *p, int64_t i) {
  if constexpr (V == 8) {
    load<4>(v, p, i);
    load<4>(v + 4, p, i + 4);
  } else if constexpr (V == 4) {
    float4 t = *reinterpret_cast<const float4 *>(p + i);
    v[0] = t.x, v[1] = t.y, v[2] = t.z, v[3] = t.w;
  } else if constexpr (V == 2) {
    float2 t = *reinterpret_cast<const float2 *>(p + i);
    v[0] = t.x, v[1] = t.y;
  } else {
    v[0] = p[i];
  }
}

template <int V> __device__ inline void load(float *v, const __nv_bfloat16 *p, int64_t i) {
  if constexpr (V == 8) {
    uint4 t = *reinterpret_cast<const uint4 *>(p + i);
    v[0] = low_bf16(t.x), v[1] = high_bf16(t.x), v[2] = low_bf16(t.y), v[3] = high_bf16(t.y);
    v[4] = low_bf16(t.z), v[5] = high_bf16(t.z), v[6] = low_bf16(t.w), v[7] = high_bf16(t.w);
  } else if constexpr (V == 4) {
    uint2 t = *reinterpret_cast<const uint2 *>(p + i);
    v[0] = low_bf16(t.x), v[1] = high_bf16(t.x), v[2] = low_bf16(t.y), v[3] = high_bf16(t.y);
  } else if constexpr (V == 2) {
    uint32_t t = *reinterpret_cast<const uint32_t *>(p + i);
    v[0] = low_bf16(t), v[1] = high_bf16(t);
  } else {
    v[0] = __bfloat162float(p[i]);
  }
}

template <int V> __device__ inline void load(float *v, const void *p, int elt, int64_t i) {
  if (elt == NNK_F32) load<V>(v, static_cast<const float *>(p), i);
  else load<V>(v, static_cast<const __nv_bfloat16 *>(p), i);
}

template <int V> __device__ inline void store(void *p, int elt, int64_t i, const float *v) {
  if (elt == NNK_F32) {
    float *f = static_cast<float *>(p) + i;
    if constexpr (V == 8) {
      *reinterpret_cast<float4 *>(f) = make_float4(v[0], v[1], v[2], v[3]);
      *reinterpret_cast<float4 *>(f + 4) = make_float4(v[4], v[5], v[6], v[7]);
    } else if constexpr (V == 4) *reinterpret_cast<float4 *>(f) = make_float4(v[0], v[1], v[2], v[3]);
    else if constexpr (V == 2) *reinterpret_cast<float2 *>(f) = make_float2(v[0], v[1]);
    else *f = v[0];
  } else {
    __nv_bfloat16 *h = static_cast<__nv_bfloat16 *>(p) + i;
    if constexpr (V == 8)
      *reinterpret_cast<uint4 *>(h) =
          make_uint4(two_bf16(v[0], v[1]), two_bf16(v[2], v[3]), two_bf16(v[4], v[5]), two_bf16(v[6], v[7]));
    else if constexpr (V == 4) *reinterpret_cast<uint2 *>(h) = make_uint2(two_bf16(v[0], v[1]), two_bf16(v[2], v[3]));
    else if constexpr (V == 2) *reinterpret_cast<uint32_t *>(h) = two_bf16(v[0], v[1]);
    else *h = __float2bfloat16_rn(v[0]);
  }
}

/* V numbers of a gradient: on top of what is there, and 0 where the mask (NULL: none) is not above 0. */
template <int V> __device__ inline void store_grad(void *p, int elt, int64_t i, float *v, int add, const void *mask) {
  float t[V];
  if (add) {
    load<V>(t, p, elt, i);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] += t[j];
  }
  if (mask) {
    load<V>(t, mask, elt, i);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = t[j] > 0 ? v[j] : 0;
  }
  store<V>(p, elt, i, v);
}

/* What p has for each of V numbers, of which the first is of channel ch; `one`: all are. */
template <int V> __device__ inline void of_channels(float *v, const float *p, int64_t ch, bool one) {
  if (!one) return load<V>(v, p, ch);
  float t = p[ch];
#pragma unroll
  for (int j = 0; j < V; j++) v[j] = t;
}

__device__ inline float relu_of(float x) { /* NaN stays */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(r) : "f"(x));
  return r;
#else
  return x < 0 ? 0 : x;
#endif
}

/* ---- pixel orders ---- */
__device__ inline uint32_t spread(uint32_t v) { /* bit i goes to 2 i */
  v = (v | v << 8) & 0x00ff00ffu;
  v = (v | v << 4) & 0x0f0f0f0fu;
  v = (v | v << 2) & 0x33333333u;
  return (v | v << 1) & 0x55555555u;
}
__device__ inline uint32_t gather(uint32_t v) { /* and back */
  v &= 0x55555555u;
  v = (v | v >> 1) & 0x33333333u;
  v = (v | v >> 2) & 0x0f0f0f0fu;
  v = (v | v >> 4) & 0x00ff00ffu;
  return (v | v >> 8) & 0x0000ffffu;
}
/* Place of pixel y, x in a sample; d is a layout, NN_PLANAR counting as 0. */
__device__ inline uint32_t place_of(uint32_t y, uint32_t x, int d, uint32_t w) {
  if (d <= 0) return y * w + x;
  uint32_t low = (1u << d) - 1;
  return (((y >> d) * (w >> d) + (x >> d)) << 2 * d) + (spread(y & low) << 1 | spread(x & low));
}
__device__ inline void pixel_at(uint32_t place, int d, uint32_t w, uint32_t *y, uint32_t *x) {
  if (d <= 0) {
    *y = place / w, *x = place - *y * w;
    return;
  }
  uint32_t tile = place >> 2 * d, row = tile / (w >> d), inside = place & ((1u << 2 * d) - 1);
  *y = (row << d) + gather(inside >> 1);
  *x = ((tile - row * (w >> d)) << d) + gather(inside);
}

/* ---- sums of pieces ---- */
__device__ inline float sum_of(float alpha, float v, int add, float old) {
  return add ? fmaf(alpha, v, old) : alpha * v;
}
__device__ inline void sum_into(const nnk_sum &s, int64_t i, float v) {
  s.p[i] = sum_of(s.scale ? *s.scale : 1, v, s.add, s.add ? s.p[i] : 0);
}
/* dst[i] from the sum over the pieces of parts[piece * (count + count2) + i], in a fixed order; what follows the first
 * `count` numbers goes to dst2 (dst2.p NULL: nowhere). */
int sum_pieces(void *stream, nnk_sum dst, int64_t count, nnk_sum dst2, int64_t count2, const float *parts,
               int64_t pieces);

} // namespace nnk
#endif
