/* SPDX-License-Identifier: MIT
 * zoom.cu - bilinear resizing of maps with few channels, such as scores of classes, one axis after the other: a block
 * has a part of a row, which lies in shared memory in between.
 */
#include "../ops/axis.h"
#include "kit.cuh"

namespace nnk {

enum { THREADS = 256, MOST = 8192, FEW = 64, UNIT = 4 };

struct zoom_args {
  nnk_map y, x; /* backward: dy and dx */
  const void *mask;
  int add, wide, tiles; /* columns of what is written that a block has, blocks of a row */
  nn_axis ay, ax;
};

struct part {
  int64_t sample;
  int row, first, last; /* columns */
};

__device__ inline part part_of(const zoom_args &p, const nnk_map &m) {
  int high = static_cast<int>(m.h), w = static_cast<int>(m.w), at = static_cast<int>(blockIdx.x), row = at / p.tiles;
  int first = (at - row * p.tiles) * p.wide, sample = row / high;
  return {sample, row - sample * high, first, first + p.wide < w ? first + p.wide : w};
}

__device__ inline int64_t row_of(const nnk_map &m, int64_t sample, int row) { return (sample * m.h + row) * m.w * m.c; }

/* ---- forward: two rows become one, which is then stretched ---- */
template <int V> __global__ void __launch_bounds__(THREADS) zoom_forward(zoom_args p) {
  __shared__ float line[MOST];
  part at = part_of(p, p.y);
  int c = static_cast<int>(p.x.c), thread = static_cast<int>(threadIdx.x);
  int begin = nn_axis_at(&p.ax, at.first).a, count = (nn_axis_at(&p.ax, at.last - 1).b - begin + 1) * c;
  nn_pair py = nn_axis_at(&p.ay, at.row);
  int64_t above = row_of(p.x, at.sample, py.a) + begin * c, below = row_of(p.x, at.sample, py.b) + begin * c;
  for (int i = thread; i < count; i += THREADS) {
    float a, b;
    load<1>(&a, p.x.p, p.x.elt, above + i);
    load<1>(&b, p.x.p, p.x.elt, below + i);
    line[i] = (1 - py.share) * a + py.share * b;
  }
  __syncthreads();
  int64_t to = row_of(p.y, at.sample, at.row) + at.first * c;
  for (int i = thread * V; i < (at.last - at.first) * c; i += THREADS * V) {
    int col = i / c, ch = i - col * c;
    nn_pair px = nn_axis_at(&p.ax, at.first + col);
    float v[V];
#pragma unroll
    for (int j = 0; j < V; j++, ch++) {
      if (ch == c) px = nn_axis_at(&p.ax, at.first + ++col), ch = 0;
      v[j] = (1 - px.share) * line[(px.a - begin) * c + ch] + px.share * line[(px.b - begin) * c + ch];
    }
    store<V>(p.y.p, p.y.elt, to + i, v);
  }
}

/* ---- backward: all rows that have a share of one become one, of which each pixel gathers its own ---- */
/* Behind the last pixel of the result that has a share of pixel i. */
__device__ inline int end_of(const nn_axis &x, int i) {
  int o = nn_axis_first(&x, i);
  while (o < x.out && nn_axis_at(&x, o).a <= i) o++;
  return o;
}

template <int V>
__device__ inline void sum_rows(float *line, const zoom_args &p, const part &at, int begin, int count) {
  int c = static_cast<int>(p.x.c), first = nn_axis_first(&p.ay, at.row), end = end_of(p.ay, at.row);
  int64_t pitch = p.y.w * c, from = row_of(p.y, at.sample, first) + begin * c;
  for (int i = static_cast<int>(threadIdx.x) * V; i < count; i += THREADS * V) {
    float sum[V];
#pragma unroll
    for (int j = 0; j < V; j++) sum[j] = 0;
#pragma unroll 4
    for (int oy = first; oy < end; oy++) {
      nn_pair py = nn_axis_at(&p.ay, oy);
      float v[V], share = nn_share_of(&py, at.row);
      load<V>(v, p.y.p, p.y.elt, from + (oy - first) * pitch + i);
#pragma unroll
      for (int j = 0; j < V; j++) sum[j] = fmaf(share, v[j], sum[j]);
    }
#pragma unroll
    for (int j = 0; j < V; j++) line[i + j] = sum[j];
  }
}

template <int V> __global__ void __launch_bounds__(THREADS) zoom_backward(zoom_args p) {
  __shared__ float line[MOST];
  part at = part_of(p, p.x);
  int c = static_cast<int>(p.x.c), begin = nn_axis_first(&p.ax, at.first) / UNIT * UNIT;
  sum_rows<V>(line, p, at, begin, (end_of(p.ax, at.last - 1) - begin) * c);
  __syncthreads();
  int64_t to = row_of(p.x, at.sample, at.row) + at.first * c;
  for (int i = static_cast<int>(threadIdx.x); i < (at.last - at.first) * c; i += THREADS) {
    int col = i / c, ch = i - col * c, ix = at.first + col;
    float sum = 0;
    for (int ox = nn_axis_first(&p.ax, ix); ox < p.ax.out; ox++) {
      nn_pair px = nn_axis_at(&p.ax, ox);
      if (px.a > ix) break;
      sum = fmaf(nn_share_of(&px, ix), line[(ox - begin) * c + ch], sum);
    }
    store_grad<1>(p.x.p, p.x.elt, to + i, &sum, p.add, p.mask);
  }
}

/* The most columns that a block may have; 0: not one. */
static int width_of(const nnk_map *y, const nnk_map *x, bool forward) {
  const nnk_map *m = forward ? y : x;
  int64_t wide = m->w < 1 << 14 ? m->w : 1 << 14, in = forward ? x->w : y->w;
  while (wide > 0 && ((wide + 3) * up(in, m->w) + 2 * UNIT) * x->c > MOST) wide = wide > 8 ? wide / 8 * 4 : wide - 1;
  return static_cast<int>(wide < m->w ? wide / UNIT * UNIT : wide);
}

static int run_zoom(void *stream, const zoom_args &p, int64_t grid, int v, bool forward) {
  unsigned blocks = static_cast<unsigned>(grid);
  if (forward && v == UNIT) SP_LAUNCH(zoom_forward<UNIT>, blocks, THREADS, 0, stream, p);
  else if (forward) SP_LAUNCH(zoom_forward<1>, blocks, THREADS, 0, stream, p);
  else if (v == UNIT) SP_LAUNCH(zoom_backward<UNIT>, blocks, THREADS, 0, stream, p);
  else SP_LAUNCH(zoom_backward<1>, blocks, THREADS, 0, stream, p);
  return launched();
}

static int zoom(void *stream, int mode, const nnk_map *y, const nnk_map *x, const nnk_map *mask, int add,
                bool forward) {
  const nnk_map *m = forward ? y : x;
  zoom_args p = {*y, *x, mask ? mask->p : nullptr, add, width_of(y, x, forward), 0, {}, {}};
  if (!nnk_zoom(mode, y, x)) return refused();
  if (elements(*m) == 0) return cudaSuccess;
  p.tiles = static_cast<int>(up(m->w, p.wide));
  p.ay = nn_axis_of(static_cast<int>(x->h), static_cast<int>(y->h), mode);
  p.ax = nn_axis_of(static_cast<int>(x->w), static_cast<int>(y->w), mode);
  return run_zoom(stream, p, m->n * m->h * p.tiles, access(UNIT, y, y->w * y->c), forward);
}

} // namespace nnk

using namespace nnk;

int nnk_zoom(int mode, const nnk_map *y, const nnk_map *x) {
  int64_t blocks = y->n * y->h * y->w; /* or fewer */
  return mode != NN_NEAREST && x->c <= FEW && x->layout == 0 && y->layout == 0 && y->w >= x->w && y->h >= x->h &&
         blocks < INT32_MAX && width_of(y, x, true) && width_of(y, x, false);
}

int nnk_zoom_forward(void *stream, int mode, const nnk_map *y, const nnk_map *x) {
  return zoom(stream, mode, y, x, nullptr, 0, true);
}

int nnk_zoom_backward(void *stream, int mode, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, int add) {
  return zoom(stream, mode, dy, dx, mask, add, false);
}
