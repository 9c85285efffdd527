/* SPDX-License-Identifier: MIT
 * cuda_inside.cu - a map where another pixel of it is inside, else 0.
 */
#include "cuda_kit.cuh"

namespace nnk {

enum { THREADS = 256 };

template <typename T>
__global__ void __launch_bounds__(THREADS) inside(T *to, const T *from, nnk_map m, int down, int right) {
  uint32_t per = static_cast<uint32_t>(m.c), i = blockIdx.x * THREADS + threadIdx.x, px = i / per;
  uint32_t w = static_cast<uint32_t>(m.w), h = static_cast<uint32_t>(m.h), row = px / w;
  if (i >= per * w * h) return;
  uint32_t y = row + static_cast<uint32_t>(down), x = px - row * w + static_cast<uint32_t>(right); /* negative: large */
  int64_t at = static_cast<int64_t>(blockIdx.y) * per * w * h + i;
  to[at] = y < h && x < w ? from[at] : T{};
}

} // namespace nnk

using namespace nnk;

int nnk_inside(void *stream, const nnk_map *dst, const nnk_map *src, int64_t down, int64_t right) {
  nnk_map m = *dst;
  int64_t bytes = m.c * static_cast<int64_t>(bytes_of(m.elt));
  m.c = bytes / 16;
  if (bytes % 16 || dst->elt != src->elt || dst->layout || src->layout || pixels(m) * m.c >= INT32_MAX || m.n > 65535)
    return refused();
  if (elements(m) == 0) return cudaSuccess;
  dim3 grid(static_cast<unsigned>(up(pixels(m) * m.c, THREADS)), static_cast<unsigned>(m.n));
  SP_LAUNCH(inside<uint4>, grid, THREADS, 0, stream, static_cast<uint4 *>(dst->p), static_cast<const uint4 *>(src->p),
            m, static_cast<int>(down), static_cast<int>(right));
  return launched();
}
