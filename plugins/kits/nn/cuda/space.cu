/* SPDX-License-Identifier: MIT
 * space.cu - a map as several smaller ones, each of every so many of its rows and columns, and back.
 */
#include "kit.cuh"

namespace nnk {

enum { THREADS = 256 };

struct space {
  uint32_t per, h, w, hs, ws; /* pieces of a pixel; of the map, and of one apart */
  uint32_t dy, dx, rows, cols;
};

template <int V> __global__ void __launch_bounds__(THREADS) to_batch(nnk_map to, nnk_map from, space s) {
  uint32_t i = blockIdx.x * THREADS + threadIdx.x, q = i / s.per, piece = i - q * s.per;
  uint32_t x = q % s.ws, y = q / s.ws % s.hs, map = q / (s.ws * s.hs);
  float v[V] = {};
  if (map >= s.rows * s.cols) return;
  y = y * s.dy + map / s.cols;
  x = x * s.dx + map % s.cols;
  int64_t src = static_cast<int64_t>(blockIdx.y) * s.h * s.w, dst = static_cast<int64_t>(blockIdx.y) * s.rows * s.cols;
  if (y < s.h && x < s.w) load<V>(v, from.p, from.elt, ((src + y * s.w + x) * s.per + piece) * V);
  store<V>(to.p, to.elt, (dst * s.hs * s.ws * s.per + i) * V, v);
}

template <int V> __global__ void __launch_bounds__(THREADS) from_batch(nnk_map to, nnk_map from, space s, int add) {
  uint32_t i = blockIdx.x * THREADS + threadIdx.x, q = i / s.per, piece = i - q * s.per, y = q / s.w, x = q - y * s.w;
  if (y >= s.h) return;
  int64_t map = static_cast<int64_t>(blockIdx.y) * s.rows * s.cols + y % s.dy * s.cols + x % s.dx;
  int64_t src = ((map * s.hs + y / s.dy) * s.ws + x / s.dx) * s.per + piece;
  int64_t dst = static_cast<int64_t>(blockIdx.y) * s.h * s.w * s.per + i;
  float v[V], old[V];
  load<V>(v, from.p, from.elt, src * V);
  if (add) {
    load<V>(old, to.p, to.elt, dst * V);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] += old[j];
  }
  store<V>(to.p, to.elt, dst * V, v);
}

/* `of` is the map, `apart` what nnk_apart makes of it. 0: refused. */
static int space_of(const nnk_map *of, const nnk_map *apart, nnk_lattice l, int *v, space *s) {
  auto as_int = [](int64_t i) { return static_cast<uint32_t>(i); };
  *v = access(access(widest(of), of, of->c), apart, of->c);
  if (apart->n != of->n * l.rows * l.cols || of->elt != apart->elt || of->layout || apart->layout || of->n > 65535 ||
      pixels(*of) * of->c >= INT32_MAX || elements(*apart) / std::max<int64_t>(of->n, 1) >= INT32_MAX)
    return 0;
  *s = {as_int(of->c / *v), as_int(of->h), as_int(of->w),  as_int(apart->h), as_int(apart->w),
        as_int(l.dy),       as_int(l.dx),  as_int(l.rows), as_int(l.cols)};
  return 1;
}

template <int V> static int split(void *stream, const nnk_map *dst, const nnk_map *src, const space &s) {
  int64_t threads = static_cast<int64_t>(s.rows) * s.cols * s.hs * s.ws * s.per;
  dim3 grid(static_cast<unsigned>(up(threads, THREADS)), static_cast<unsigned>(src->n));
  SP_LAUNCH(to_batch<V>, grid, THREADS, 0, stream, *dst, *src, s);
  return launched();
}

template <int V> static int join(void *stream, const nnk_map *dst, const nnk_map *src, const space &s, int add) {
  dim3 grid(static_cast<unsigned>(up(pixels(*dst) * s.per, THREADS)), static_cast<unsigned>(dst->n));
  SP_LAUNCH(from_batch<V>, grid, THREADS, 0, stream, *dst, *src, s, add);
  return launched();
}

} // namespace nnk

using namespace nnk;

nnk_lattice nnk_lattice_of(const int *every, const nnk_map *a, const nnk_map *b) {
  return {every[0], every[1], std::min<int64_t>(every[0], std::max(a->h, b->h)),
          std::min<int64_t>(every[1], std::max(a->w, b->w))};
}

nnk_map nnk_apart(const nnk_map *m, nnk_lattice l) {
  return {NULL, m->elt, m->layout, m->n * l.rows * l.cols, m->c, up(m->h, l.dy), up(m->w, l.dx)};
}

int nnk_space_to_batch(void *stream, const nnk_map *dst, const nnk_map *src, nnk_lattice l) {
  space s;
  int v;
  if (!space_of(src, dst, l, &v, &s)) return refused();
  if (elements(*src) == 0) return cudaSuccess;
  if (v == 8) return split<8>(stream, dst, src, s);
  if (v == 4) return split<4>(stream, dst, src, s);
  return v == 2 ? split<2>(stream, dst, src, s) : split<1>(stream, dst, src, s);
}

int nnk_batch_to_space(void *stream, const nnk_map *dst, const nnk_map *src, nnk_lattice l, int add) {
  space s;
  int v;
  if (!space_of(dst, src, l, &v, &s)) return refused();
  if (elements(*dst) == 0) return cudaSuccess;
  if (v == 8) return join<8>(stream, dst, src, s, add);
  if (v == 4) return join<4>(stream, dst, src, s, add);
  return v == 2 ? join<2>(stream, dst, src, s, add) : join<1>(stream, dst, src, s, add);
}
