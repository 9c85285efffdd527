/* SPDX-License-Identifier: MIT
 * resize_tile.cuh - any number of inputs an output, of a window of the image that begins at (top, left).
 *
 * A block makes tiles of 32 elements x 32 rows. It goes through the input rows 32 at a time; of these it brings pieces
 * of 256 elements to shared memory, whole lines at once, where each thread adds its element's part to four rows; what
 * is complete along x is then added along y. So each input is fetched once a tile, whatever the ratio. */
#ifndef RESIZE_TILE_CUH
#define RESIZE_TILE_CUH

#include <type_traits>

#include "resize_common.cuh"

enum { TILE = 32, PIECE = 256, EACH = 4 };

/* One unused word in 32, so that neighbours 32 apart do not wait for each other. */
static __device__ __forceinline__ int padded(int i) { return i + i / 32; }

/* An output of an axis. total: where at most two inputs count, what the second one does. R:
 * double where it is cubic. */
template <typename R> struct one_output {
  R centre, total;
  int lo, n;
};

/* V: what sums are made of. */
template <typename V, typename R> struct tile_memory {
  V piece[TILE][PIECE + PIECE / 32 + 1];
  V row[TILE][TILE];
  one_output<R> y[TILE];
};

/* The inputs of an output. */
static __device__ __forceinline__ void span_of(const resize_axis &a, int i, one_output<float> &o) {
  o = {resize_centre(&a, i), 0.0f, 0, 0};
  if (a.support == 1.0f) {
    o.lo = resize_two(&a, i, &o.total);
    o.n = o.total > 0.0f ? 2 : 1;
  } else resize_span(&a, o.centre, &o.lo, &o.n);
}
static __device__ __forceinline__ void span_of(const resize_axis &a, int i, one_output<double> &o) {
  o.centre = cubic_centre(&a.cubic, i);
  o.total = cubic_span(&a.cubic, o.centre, &o.lo, &o.n);
}

static __device__ __forceinline__ void total_of(const resize_axis &a, one_output<float> &o) {
  if (a.support != 1.0f) o.total = resize_total(&a, o.centre, o.lo, o.n);
}
static __device__ __forceinline__ void total_of(const resize_axis &, one_output<double> &) {}

template <typename V>
static __device__ __forceinline__ V weight(const resize_axis &a, const one_output<float> &o, int x) {
  if (a.support == 1.0f) return x == o.lo ? __fsub_rn(1.0f, o.total) : o.total;
  return __fdiv_rn(resize_tap(&a, o.centre, x), o.total);
}
template <typename V>
static __device__ __forceinline__ V weight(const resize_axis &a, const one_output<double> &o, int x) {
  return cubic_weight(V(), cubic_tap(&a.cubic, o.centre, x) / o.total);
}

/* 32 rows from `first` on, as far as they are before `end`, along x into m.row. */
template <typename T, typename V, typename R>
static __device__ void tile_rows(tile_memory<V, R> &m, const aug_job &j, const resize_axis &ax, const one_output<R> &x,
                                 const T *in, int first, int end, int begin, int stop, int channel) {
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE, k = 0;
  int64_t pitch = (int64_t)j.w * j.pix;
  V h[EACH];
#pragma unroll
  for (int r = 0; r < EACH; r++) h[r] = sum_start(V());
  for (int piece = begin; piece < stop; piece += PIECE) {
    int n = min(PIECE, stop - piece);
    for (int r = ty; r < TILE; r += THREADS / TILE) {
      const T *from = in + (first + r) * pitch + piece;
      for (int i = tx; i < n; i += TILE) m.piece[r][padded(i)] = first + r < end ? (V)from[i] : (V)0;
    }
    __syncthreads();
    for (; k < x.n && (x.lo + k) * j.pix + channel < piece + n; k++) {
      V w = weight<V>(ax, x, x.lo + k);
      int at = padded((x.lo + k) * j.pix + channel - piece);
#pragma unroll
      for (int r = 0; r < EACH; r++) h[r] = sum_add(h[r], product(m.piece[ty * EACH + r][at], w));
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < EACH; r++) m.row[ty * EACH + r][tx] = sum_between(h[r]);
  __syncthreads();
}

template <typename T, typename V, typename R>
static __device__ void tile(tile_memory<V, R> &m, const aug_job &j, const axes &a, const T *in, int64_t plane, int top,
                            int e) {
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE, n = j.out_w * j.pix;
  int mine = min(e + tx, n - 1), column = mine / j.pix, channel = mine - column * j.pix;
  int last_row = min(top + TILE, j.out_h) - 1;
  one_output<R> x, left, upper, right, low;
  V sum[EACH];
#pragma unroll
  for (int r = 0; r < EACH; r++) sum[r] = sum_start(V());
  span_of(a.x, column, x);
  total_of(a.x, x);
  if (threadIdx.x < TILE) {
    span_of(a.y, min(top + tx, last_row), low);
    total_of(a.y, low);
    m.y[tx] = low;
  }
  span_of(a.x, e / j.pix, left);
  span_of(a.y, top, upper);
  span_of(a.x, (min(e + TILE, n) - 1) / j.pix, right);
  span_of(a.y, last_row, low);
  int begin = left.lo * j.pix, stop = (right.lo + right.n) * j.pix, end = low.lo + low.n;
  for (int first = upper.lo; first < end; first += TILE) {
    tile_rows(m, j, a.x, x, in, first, end, begin, stop, channel);
#pragma unroll
    for (int r = 0; r < EACH; r++) {
      one_output<R> y = m.y[ty * EACH + r];
      for (int i = max(first, y.lo); i < min(first + TILE, y.lo + y.n); i++)
        sum[r] = sum_add(sum[r], product(m.row[i - first][tx], weight<V>(a.y, y, i)));
    }
    __syncthreads();
  }
  T *out = static_cast<T *>(j.out) + (blockIdx.y * j.planes + plane) * j.out_h * n;
#pragma unroll
  for (int r = 0; r < EACH; r++)
    if (top + ty * EACH + r <= last_row && e + tx < n)
      out[(int64_t)(top + ty * EACH + r) * n + e + tx] = clamped(T(), sum[r]);
}

template <typename T, typename V, typename R>
static __device__ void tiles_of(tile_memory<V, R> &m, const aug_job &j, const axes &a, corner from) {
  int wide = (j.out_w * j.pix + TILE - 1) / TILE, high = (j.out_h + TILE - 1) / TILE;
  int64_t all = j.planes * high * wide;
  for (int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    int64_t row = i / wide;
    int64_t plane = row / high;
    const T *in = aug_row<T>(j, blockIdx.y, plane, from.top) + (int64_t)from.left * j.pix;
    tile<T>(m, j, a, in, plane, (int)(row - plane * high) * TILE, (int)(i - row * wide) * TILE);
  }
}

/* All tiles of a block's sample and tensor. */
template <bool CUBIC> static __device__ void tiles(const aug_job &j, const axes &a, corner from) {
  typedef typename std::conditional<CUBIC, double, float>::type real;
  __shared__ tile_memory<float, real> m;
  typedef tile_memory<typename resize_sum<uint8_t, CUBIC>::number, real> of_bytes; /* of the same size */
  if (j.dtype == SP_U8) tiles_of<uint8_t>(reinterpret_cast<of_bytes &>(m), j, a, from);
  else tiles_of<float>(m, j, a, from);
}

/* A block for each tile of the largest tensor: enough for what is picked, too, as tiles of it are larger. */
static inline dim3 tile_grid(const aug_jobs *jobs) {
  int64_t most = 1;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job &j = jobs->job[i];
    int64_t wide = ((int64_t)j.out_w * j.pix + TILE - 1) / TILE, n = j.planes * ((j.out_h + TILE - 1) / TILE) * wide;
    most = n > most ? n : most;
  }
  return dim3((unsigned)most, (unsigned)jobs->n, (unsigned)jobs->count);
}

#endif
