/* SPDX-License-Identifier: MIT
 * upsample.cu - maps with the channels innermost to another size, nearest or bilinear.
 */
#include "../ops/axis.h"
#include "kit.cuh"

namespace nnk {

enum { THREADS = 256 };

struct up_args {
  nnk_map y, x; /* backward: dy and dx */
  const void *mask;
  int add;
  nn_axis ay, ax;
  uint32_t blocks; /* of a sample */
};

/* Unit of the thread in its sample; false: none. */
template <int V>
__device__ inline bool unit_of(const up_args &p, const nnk_map &m, int64_t *sample, int *y, int *x, int *ch) {
  uint32_t first = blockIdx.x / p.blocks, u = (blockIdx.x - first * p.blocks) * THREADS + threadIdx.x;
  uint32_t per = static_cast<uint32_t>(m.c / V), px = u / per, w = static_cast<uint32_t>(m.w), row = px / w;
  *sample = first;
  *ch = static_cast<int>(u - px * per) * V;
  *y = static_cast<int>(row);
  *x = static_cast<int>(px - row * w);
  return row < static_cast<uint32_t>(m.h);
}

__device__ inline int64_t place(const nnk_map &m, int64_t sample, int y, int x, int ch) {
  return ((sample * m.h + y) * m.w + x) * m.c + ch;
}

template <int V> __global__ void __launch_bounds__(THREADS) up_forward(up_args p) {
  int64_t sample;
  int oy, ox, ch;
  if (!unit_of<V>(p, p.y, &sample, &oy, &ox, &ch)) return;
  nn_pair py = nn_axis_at(&p.ay, oy), px = nn_axis_at(&p.ax, ox);
  float a[V], b[V], c[V], d[V];
  load<V>(a, p.x.p, p.x.elt, place(p.x, sample, py.a, px.a, ch));
  if (p.ay.mode != NN_NEAREST) {
    load<V>(b, p.x.p, p.x.elt, place(p.x, sample, py.a, px.b, ch));
    load<V>(c, p.x.p, p.x.elt, place(p.x, sample, py.b, px.a, ch));
    load<V>(d, p.x.p, p.x.elt, place(p.x, sample, py.b, px.b, ch));
    float x1 = px.share, x0 = 1 - x1, y1 = py.share, y0 = 1 - y1;
#pragma unroll
    for (int j = 0; j < V; j++) a[j] = y0 * (x0 * a[j] + x1 * b[j]) + y1 * (x0 * c[j] + x1 * d[j]);
  }
  store<V>(p.y.p, p.y.elt, place(p.y, sample, oy, ox, ch), a);
}

/* A thread gathers what the pixels of the result give that have a share of its own. */
template <int V> __global__ void __launch_bounds__(THREADS) up_backward(up_args p) {
  int64_t sample;
  int iy, ix, ch;
  if (!unit_of<V>(p, p.x, &sample, &iy, &ix, &ch)) return;
  int64_t at = place(p.x, sample, iy, ix, ch);
  int first = nn_axis_first(&p.ax, ix);
  float sum[V], v[V];
  for (int j = 0; j < V; j++) sum[j] = 0;
  for (int oy = nn_axis_first(&p.ay, iy); oy < p.ay.out; oy++) {
    nn_pair py = nn_axis_at(&p.ay, oy);
    if (py.a > iy) break;
    for (int ox = first; ox < p.ax.out; ox++) {
      nn_pair px = nn_axis_at(&p.ax, ox);
      if (px.a > ix) break;
      float part = nn_share_of(&py, iy) * nn_share_of(&px, ix);
      load<V>(v, p.y.p, p.y.elt, place(p.y, sample, oy, ox, ch));
#pragma unroll
      for (int j = 0; j < V; j++) sum[j] += part * v[j];
    }
  }
  store_grad<V>(p.x.p, p.x.elt, at, sum, p.add, p.mask);
}

template <int V> static int run_up(void *stream, up_args p, bool forward) {
  const nnk_map &m = forward ? p.y : p.x;
  p.blocks = static_cast<uint32_t>(up(pixels(m) * (m.c / V), THREADS));
  unsigned grid = p.blocks * static_cast<unsigned>(m.n);
  if (forward) SP_LAUNCH(up_forward<V>, grid, THREADS, 0, stream, p);
  else SP_LAUNCH(up_backward<V>, grid, THREADS, 0, stream, p);
  return launched();
}

/* Whether y is x with each pixel some times over: the only part of a concatenation. */
static bool repeats(int mode, const nnk_map *y, const nnk_map *x) {
  nn_axis ay = nn_axis_of(static_cast<int>(x->h), static_cast<int>(y->h), mode);
  nn_axis ax = nn_axis_of(static_cast<int>(x->w), static_cast<int>(y->w), mode);
  return y->c == x->c && nn_axis_times(&ay) && nn_axis_times(&ax);
}

static int upsample(void *stream, int mode, const nnk_map *y, const nnk_map *x, const nnk_map *mask, int add,
                    bool forward) {
  if ((y->layout && pixels(*y) > 1) || (x->layout && pixels(*x) > 1) || y->c != x->c) return refused();
  if (elements(*x) == 0) return cudaSuccess;
  up_args p = {*y, *x, mask ? mask->p : nullptr, add, {}, {}, 0};
  p.ay = nn_axis_of(static_cast<int>(x->h), static_cast<int>(y->h), mode);
  p.ax = nn_axis_of(static_cast<int>(x->w), static_cast<int>(y->w), mode);
  int v = access(access(access(4, y, y->c), x, x->c), mask, x->c);
  return v == 4   ? run_up<4>(stream, p, forward)
         : v == 2 ? run_up<2>(stream, p, forward)
                  : run_up<1>(stream, p, forward);
}

} // namespace nnk

using namespace nnk;

int nnk_upsample_forward(void *stream, int mode, const nnk_map *y, const nnk_map *x) {
  if (nnk_zoom(mode, y, x)) return nnk_zoom_forward(stream, mode, y, x);
  if (repeats(mode, y, x)) return nnk_concat(stream, y, 1, x);
  return upsample(stream, mode, y, x, nullptr, 0, true);
}

int nnk_upsample_backward(void *stream, int mode, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, int add) {
  if (dx->h * dx->w == 1) return nnk_sum_pixels(stream, dx, dy, mask, add);
  if (nnk_zoom(mode, dy, dx)) return nnk_zoom_backward(stream, mode, dx, dy, mask, add);
  if (repeats(mode, dy, dx)) return nnk_split(stream, dx, dy, 0, mask, add);
  return upsample(stream, mode, dy, dx, mask, add, false);
}
