/* SPDX-License-Identifier: MIT
 * resize_half.cuh - images of bytes at half of their size on CUDA.
 *
 * Between the edges the weights are eighths, 1 3 3 1, and whatever is made of bytes is exact: so it is made of
 * integers, two at once in the halves of a word. A thread makes four pixels of some rows and has all that these need on
 * its way at once. At the edges the weights are sevenths, which are rounded: the block makes these elements again. */
#ifndef RESIZE_HALF_CUH
#define RESIZE_HALF_CUH

#include "resize_common.cuh"

enum { HALF_WARPS = 8, HALF_THREADS = 32 * HALF_WARPS };

/* Rows of a thread: it has on its way what these need at once, which is more where pixels are WIDE. */
template <bool WIDE> struct half_strip {
  enum { ROWS = WIDE ? 2 : 4 };
};

/* Threads of a row. */
static __host__ __device__ __forceinline__ uint32_t half_units(const aug_job &j) { return (uint32_t)j.out_w / 4; }

/* What four pixels are made of: ten pixels, of which the first ends with word 0 and the last begins word WORDS - 1. */
template <int PIX> struct half_words {
  enum { WORDS = 2 * PIX + 2 };
  uint32_t w[WORDS];

  /* Four times the eighths of elements k and k + 1. */
  __device__ __forceinline__ uint32_t two(int k) const {
    const uint32_t weights = 0x040c0c04u;
    return __dp4a(inputs(k), weights, 0u) | __dp4a(inputs(k + 1), weights, 0u) << 16;
  }

  /* The four inputs of an element, PIX bytes apart; all but the words is constant. */
  __device__ __forceinline__ uint32_t inputs(int k) const {
    int from = 4 - PIX + k / PIX * 2 * PIX + k % PIX, word = from / 4;
    uint32_t v = PIX == 1 ? __funnelshift_r(w[word], w[min(word + 1, WORDS - 1)], from % 4 * 8) : w[word];
#pragma unroll
    for (int next = 1; PIX > 1 && next < 4; next++) { /* words that have some */
      uint32_t digits = 0;
      if ((from + 3 * PIX) / 4 < word + next) break;
#pragma unroll
      for (int t = 0; t < 4; t++) {
        int at = from + t * PIX, which = at / 4 - word;
        digits |= (uint32_t)(which == next ? 4 + at % 4 : next == 1 ? at % 4 : t) << 4 * t;
      }
      v = __byte_perm(v, w[word + next], digits);
    }
    return v;
  }
};

/* Of four rows of sums, to the nearest, half to even, in each half's upper byte. */
static __device__ __forceinline__ uint32_t half_along_y(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  uint32_t sum = a + d + 0x007f007fu + (b + c) * 3u;
  return sum + (sum >> 8 & 0x00010001u);
}

/* The four inputs of output i of n, and their weights: at an edge three, the fourth counts nothing. */
static __device__ __forceinline__ int half_weights(int i, int n, float (&w)[4]) {
  bool first = i == 0, edge = first || i == n - 1;
  w[0] = first ? 0.75f / 1.75f : edge ? 0.25f / 1.75f : 0.125f;
  w[1] = edge ? 0.75f / 1.75f : 0.375f;
  w[2] = first ? 0.25f / 1.75f : edge ? 0.75f / 1.75f : 0.375f;
  w[3] = edge ? 0.0f : 0.125f;
  return first ? 0 : 2 * i - 1;
}

static __device__ void half_edge(const aug_job &j, int64_t plane, int y, int e) {
  int column = column_of(j, e), n = j.out_w * j.pix;
  float wx[4], wy[4], sum = 0.0f;
  int x = half_weights(column, j.out_w, wx), row = half_weights(y, j.out_h, wy);
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const uint8_t *in = aug_row<uint8_t>(j, blockIdx.y, plane, min(row + r, j.h - 1)) + e - column * j.pix;
    float h = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; k++) h = __fadd_rn(h, __fmul_rn((float)in[min(x + k, j.w - 1) * j.pix], wx[k]));
    sum = __fadd_rn(sum, __fmul_rn(h, wy[r]));
  }
  static_cast<uint8_t *>(j.out)[((blockIdx.y * j.planes + plane) * j.out_h + y) * n + e] = clamped(uint8_t(), sum);
}

template <int PIX, int ROWS> static __device__ __forceinline__ void half_tile(const aug_job &j, const aug_place &p) {
  enum { NEEDED = 2 * ROWS + 2, TALL = HALF_WARPS * ROWS, WORDS = half_words<PIX>::WORDS };
  int n = j.out_w * PIX, e = 4 * PIX * p.x;
  int64_t image = blockIdx.y * j.planes + p.plane;
  if (p.y < j.out_h && e < n) {
    uint32_t pitch = 2 * (uint32_t)n;
    const char *in = static_cast<const char *>(j.in) + image * j.h * (int64_t)pitch + 2 * e;
    const char *before = in - (e ? 4 : 0), *behind = in + (e + 4 * PIX < n ? 8 * PIX : 0);
    half_words<PIX> v[NEEDED];
#pragma unroll
    for (int r = 0; r < NEEDED; r++) {
      uint64_t row = (uint64_t)(uint32_t)max(0, min(2 * p.y - 1 + r, j.h - 1)) * pitch;
      v[r].w[0] = *reinterpret_cast<const uint32_t *>(before + row);
#pragma unroll
      for (int k = 0; k < PIX; k++) {
        uint2 two = reinterpret_cast<const uint2 *>(in + row)[k];
        v[r].w[2 * k + 1] = two.x;
        v[r].w[2 * k + 2] = two.y;
      }
      v[r].w[WORDS - 1] = *reinterpret_cast<const uint32_t *>(behind + row);
    }
    uint8_t *out = static_cast<uint8_t *>(j.out) + (image * j.out_h + p.y) * n + e;
    uint32_t h[4][2 * PIX];
#pragma unroll
    for (int k = 0; k < 2 * PIX; k++) {
      h[0][k] = v[0].two(2 * k);
      h[1][k] = v[1].two(2 * k);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++, out += n) {
      uint32_t made[2 * PIX];
#pragma unroll
      for (int k = 0; k < 2 * PIX; k++) {
        h[2][k] = v[2 * r + 2].two(2 * k);
        h[3][k] = v[2 * r + 3].two(2 * k);
        made[k] = half_along_y(h[0][k], h[1][k], h[2][k], h[3][k]);
        h[0][k] = h[2][k];
        h[1][k] = h[3][k];
      }
      if (p.y + r < j.out_h)
#pragma unroll
        for (int k = 0; k < PIX; k++)
          reinterpret_cast<uint32_t *>(out)[k] = __byte_perm(made[2 * k], made[2 * k + 1], 0x7531);
    }
  }
  int top = p.y - (int)threadIdx.x / 32 * ROWS, rows = min((int)TALL, j.out_h - top);
  int from = e - (int)threadIdx.x % 32 * 4 * PIX, wide = min(128 * PIX, n - from);
  int left = from == 0 ? PIX : 0, right = from + wide == n ? PIX : 0, both = left + right;
  int above = top == 0 ? wide : 0, below = top + rows == j.out_h ? wide : 0, all = rows * both + above + below;
  if (!all) return;
  __syncthreads();
  for (int i = threadIdx.x; i < all; i += HALF_THREADS) {
    int k = i - rows * both, y = k < above ? 0 : j.out_h - 1;
    k -= k < above ? 0 : above;
    if (i < rows * both) {
      y = i / both;
      k = i - y * both;
      k = k < left ? k : wide - 1 - (k - left);
      y += top;
    }
    half_edge(j, p.plane, y, from + k);
  }
}

/* WIDE: of some images a pixel has several channels. */
template <bool WIDE>
static __global__ void __launch_bounds__(HALF_THREADS, AUG_PER_SM(HALF_THREADS, 3))
    halving(const aug_jobs jobs, const axes a) {
  enum { ROWS = half_strip<WIDE>::ROWS };
  const aug_job &j = jobs.job[blockIdx.z];
  if (picked(j, a, HALF_WARPS, ROWS, blockIdx.y)) return;
  aug_place p = aug_place_of(j, half_units(j), HALF_WARPS, ROWS);
  if (p.plane < 0) return;
  if (!WIDE || j.pix == 1) half_tile<1, ROWS>(j, p);
  else if (j.pix == 2) half_tile<2, ROWS>(j, p);
  else if (j.pix == 3) half_tile<3, ROWS>(j, p);
  else half_tile<4, ROWS>(j, p);
}

/* Whether all images are such. */
static bool halved(const aug_jobs *jobs, const axes &a) {
  bool yes = a.x.how == RESIZE_MEAN && a.x.in == 2 * a.x.out && a.y.in == 2 * a.y.out && a.x.out > 1 && a.y.out > 1;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job &j = jobs->job[i];
    bool aligned = reinterpret_cast<uintptr_t>(j.in) % 8 == 0 && reinterpret_cast<uintptr_t>(j.out) % 4 == 0;
    yes = yes && (j.mask || (j.dtype == SP_U8 && j.pix <= 4 && j.out_w % 4 == 0 && aligned));
  }
  return yes;
}

static void half_launch(void *stream, const aug_jobs *jobs, const axes &a) {
  bool wide = false;
  for (int i = 0; i < jobs->count; i++) wide = wide || jobs->job[i].pix > 1;
  int rows = wide ? (int)half_strip<true>::ROWS : (int)half_strip<false>::ROWS;
  dim3 grid = aug_tile_grid(jobs, HALF_WARPS, rows, half_units);
  if (wide) SP_LAUNCH(halving<true>, grid, HALF_THREADS, 0, stream, *jobs, a);
  else SP_LAUNCH(halving<false>, grid, HALF_THREADS, 0, stream, *jobs, a);
}

#endif
