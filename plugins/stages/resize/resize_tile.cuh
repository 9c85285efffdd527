/* SPDX-License-Identifier: MIT
 * resize_tile.cuh - any number of inputs an output, of a window of the image that begins at (top, left).
 *
 * A block makes tiles of 32 elements x 32 rows. It goes through the input rows 32 at a time; of these it brings pieces
 * of 256 elements to shared memory, whole lines at once, where each thread adds its element's part to four rows; what
 * is complete along x is then added along y. So each input is fetched once a tile, whatever the ratio. */
#ifndef RESIZE_TILE_CUH
#define RESIZE_TILE_CUH

#include "resize_common.cuh"

enum { TILE = 32, PIECE = 256, EACH = 4 };

/* One unused word in 32, so that neighbours 32 apart do not wait for each other. */
static __device__ __forceinline__ int padded(int i) { return i + i / 32; }

struct one_output { /* of an axis; total: where at most two inputs count, what the second one does */
  float centre, total;
  int lo, n;
};

struct tile_memory {
  float piece[TILE][PIECE + PIECE / 32 + 1];
  float row[TILE][TILE];
  one_output y[TILE];
};

/* The inputs of an output. */
static __device__ __forceinline__ one_output span_of(const resize_axis &a, int i) {
  one_output o = {resize_centre(&a, i), 0.0f, 0, 0};
  if (a.support == 1.0f) {
    o.lo = resize_two(&a, i, &o.total);
    o.n = o.total > 0.0f ? 2 : 1;
  } else resize_span(&a, o.centre, &o.lo, &o.n);
  return o;
}

static __device__ one_output output_of(const resize_axis &a, int i) {
  one_output o = span_of(a, i);
  if (a.support != 1.0f) o.total = resize_total(&a, o.centre, o.lo, o.n);
  return o;
}

static __device__ __forceinline__ float weight(const resize_axis &a, const one_output &o, int x) {
  if (a.support == 1.0f) return x == o.lo ? __fsub_rn(1.0f, o.total) : o.total;
  return __fdiv_rn(resize_tap(&a, o.centre, x), o.total);
}

/* 32 rows from `first` on, as far as they are before `end`, along x into m.row. */
template <typename T>
static __device__ void tile_rows(tile_memory &m, const aug_job &j, const resize_axis &ax, const one_output &x,
                                 const T *in, int first, int end, int begin, int stop, int channel) {
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE, k = 0;
  int64_t pitch = (int64_t)j.w * j.pix;
  float h[EACH] = {};
  for (int piece = begin; piece < stop; piece += PIECE) {
    int n = min(PIECE, stop - piece);
    for (int r = ty; r < TILE; r += THREADS / TILE) {
      const T *from = in + (first + r) * pitch + piece;
      for (int i = tx; i < n; i += TILE) m.piece[r][padded(i)] = first + r < end ? (float)from[i] : 0.0f;
    }
    __syncthreads();
    for (; k < x.n && (x.lo + k) * j.pix + channel < piece + n; k++) {
      float w = weight(ax, x, x.lo + k);
      int at = padded((x.lo + k) * j.pix + channel - piece);
#pragma unroll
      for (int r = 0; r < EACH; r++) h[r] = __fadd_rn(h[r], __fmul_rn(m.piece[ty * EACH + r][at], w));
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < EACH; r++) m.row[ty * EACH + r][tx] = h[r];
  __syncthreads();
}

template <typename T>
static __device__ void tile(tile_memory &m, const aug_job &j, const axes &a, const T *in, int64_t plane, int top,
                            int e) {
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE, n = j.out_w * j.pix;
  int mine = min(e + tx, n - 1), column = mine / j.pix, channel = mine - column * j.pix;
  int last_row = min(top + TILE, j.out_h) - 1;
  one_output x = output_of(a.x, column);
  float sum[EACH] = {};
  if (threadIdx.x < TILE) m.y[tx] = output_of(a.y, min(top + tx, last_row));
  int begin = span_of(a.x, e / j.pix).lo * j.pix, lo = span_of(a.y, top).lo;
  one_output right = span_of(a.x, (min(e + TILE, n) - 1) / j.pix), low = span_of(a.y, last_row);
  int stop = (right.lo + right.n) * j.pix, end = low.lo + low.n;
  for (int first = lo; first < end; first += TILE) {
    tile_rows(m, j, a.x, x, in, first, end, begin, stop, channel);
#pragma unroll
    for (int r = 0; r < EACH; r++) {
      one_output y = m.y[ty * EACH + r];
      for (int i = max(first, y.lo); i < min(first + TILE, y.lo + y.n); i++)
        sum[r] = __fadd_rn(sum[r], __fmul_rn(m.row[i - first][tx], weight(a.y, y, i)));
    }
    __syncthreads();
  }
  T *out = static_cast<T *>(j.out) + (blockIdx.y * j.planes + plane) * j.out_h * n;
#pragma unroll
  for (int r = 0; r < EACH; r++)
    if (top + ty * EACH + r <= last_row && e + tx < n)
      out[(int64_t)(top + ty * EACH + r) * n + e + tx] = clamped(T(), sum[r]);
}

template <typename T> static __device__ void tiles(tile_memory &m, const aug_job &j, const axes &a, corner from) {
  int wide = (j.out_w * j.pix + TILE - 1) / TILE, high = (j.out_h + TILE - 1) / TILE;
  int64_t all = j.planes * high * wide;
  for (int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    int64_t row = i / wide;
    int64_t plane = row / high;
    const T *in = aug_row<T>(j, blockIdx.y, plane, from.top) + (int64_t)from.left * j.pix;
    tile<T>(m, j, a, in, plane, (int)(row - plane * high) * TILE, (int)(i - row * wide) * TILE);
  }
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
