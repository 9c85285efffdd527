/* SPDX-License-Identifier: MIT
 * shift.cu - a map as each place of a convolution's kernel meets it, and sums over places.
 */
#include "kit.cuh"

namespace nnk {

enum { THREADS = 256 };

struct shift_args {
  uint32_t per, h, w;                  /* pieces of a pixel */
  int taps, across, down[2], right[2]; /* of a tap: rows times the first plus the second, columns likewise */
  int64_t apart;                       /* pieces from a tap's map to the next */
};

struct offset {
  int down, right;
};

__device__ inline offset offset_of(const shift_args &s, int tap) {
  return {tap / s.across * s.down[0] + s.down[1], tap % s.across * s.right[0] + s.right[1]};
}

/* Whether pixel y, x is inside of the map. */
__device__ inline bool inside(const shift_args &s, int y, int x) {
  return static_cast<uint32_t>(y) < s.h && static_cast<uint32_t>(x) < s.w;
}

__global__ void __launch_bounds__(THREADS) shift(uint4 *to, const uint4 *from, shift_args s) {
  uint32_t i = blockIdx.x * THREADS + threadIdx.x, px = i / s.per, row = px / s.w, col = px - row * s.w;
  int64_t sample = static_cast<int64_t>(blockIdx.y) * s.per * s.w * s.h;
  if (row >= s.h) return;
  for (int tap = 0; tap < s.taps; tap++) {
    offset o = offset_of(s, tap);
    int y = static_cast<int>(row) - o.down, x = static_cast<int>(col) - o.right;
    int64_t behind = (static_cast<int64_t>(o.down) * s.w + o.right) * s.per;
    to[tap * s.apart + sample + i] = inside(s, y, x) ? from[sample + i - behind] : uint4{};
  }
}

__global__ void __launch_bounds__(THREADS) shift_sum(float4 *to, const float4 *from, shift_args s) {
  uint32_t i = blockIdx.x * THREADS + threadIdx.x, px = i / s.per, row = px / s.w, col = px - row * s.w;
  int64_t sample = static_cast<int64_t>(blockIdx.y) * s.per * s.w * s.h;
  float4 sum = {};
  if (row >= s.h) return;
#pragma unroll 9
  for (int tap = 0; tap < s.taps; tap++) {
    offset o = offset_of(s, tap);
    int64_t on = (static_cast<int64_t>(o.down) * s.w + o.right) * s.per;
    if (!inside(s, static_cast<int>(row) + o.down, static_cast<int>(col) + o.right)) continue;
    float4 v = from[tap * s.apart + sample + i + on];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  to[sample + i] = sum;
}

static bool shift_of(const nnk_map *m, const nnk_taps *t, shift_args *s) {
  int64_t bytes = m->c * static_cast<int64_t>(bytes_of(m->elt)), per = bytes / 16;
  if (bytes % 16 || m->layout || pixels(*m) * per >= INT32_MAX || m->n > 65535) return false;
  *s = {
      static_cast<uint32_t>(per), static_cast<uint32_t>(m->h), static_cast<uint32_t>(m->w), t->k[0] * t->k[1], t->k[1],
      {t->dil[0], -t->p[0]},      {t->dil[1], -t->p[1]},       m->n * pixels(*m) * per};
  return true;
}

static dim3 grid_of(const nnk_map *m, const shift_args &s) {
  return dim3(static_cast<unsigned>(up(pixels(*m) * s.per, THREADS)), static_cast<unsigned>(m->n));
}

} // namespace nnk

using namespace nnk;

int nnk_shift(void *stream, void *to, const nnk_map *from, const nnk_taps *taps) {
  shift_args s;
  if (!shift_of(from, taps, &s)) return refused();
  if (elements(*from) == 0) return cudaSuccess;
  SP_LAUNCH(shift, grid_of(from, s), THREADS, 0, stream, static_cast<uint4 *>(to), static_cast<const uint4 *>(from->p),
            s);
  return launched();
}

int nnk_shift_sum(void *stream, const nnk_map *to, const void *from, const nnk_taps *taps) {
  shift_args s;
  if (to->elt != NNK_F32 || !shift_of(to, taps, &s)) return refused();
  if (elements(*to) == 0) return cudaSuccess;
  SP_LAUNCH(shift_sum, grid_of(to, s), THREADS, 0, stream, static_cast<float4 *>(to->p),
            static_cast<const float4 *>(from), s);
  return launched();
}
