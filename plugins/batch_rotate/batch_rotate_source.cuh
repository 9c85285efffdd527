/* SPDX-License-Identifier: MIT
 * batch_rotate_source.cuh - the image as a block of a kernel sees it: in memory, or the part of it that a tile of the
 * result comes from in shared memory, which a turned gather reads several times as fast.
 */
#ifndef BATCH_ROTATE_SOURCE_CUH
#define BATCH_ROTATE_SOURCE_CUH

#include "batch_rotate_pixel.cuh"

enum { THREADS = 256, TILE = 64, PART = 32 }; /* a block makes TILE x TILE pixels, some sources PART x PART at a time */
enum { CHANNELS = 4 };                        /* that a block makes of pixels that have neither 1 nor 3 */

/* One tensor in memory, of this block's sample. C channels; where C is CHANNELS, `count` of them are there. PIX:
 * elements of a pixel that lie side by side, 0: as the job says. */
template <typename T, int C, int PIX> struct view {
  using type = T;
  static constexpr int channels = C;
  const T *in[C];
  T *out[C];
  int w, h, stride, count;
  __device__ view(const aug_job &j, int first) : w(j.w), h(j.h), stride(PIX ? PIX : j.pix) {
    int64_t plane = (int64_t)w * h, all = j.planes * j.pix, next = j.planes == 1 ? 1 : plane;
    const T *from = static_cast<const T *>(j.in) + blockIdx.y * all * plane + first * next;
    T *to = static_cast<T *>(j.out) + blockIdx.y * all * plane + first * next;
    count = C == CHANNELS ? (int)min(all - first, (int64_t)C) : C;
#pragma unroll
    for (int c = 0; c < C; c++) {
      in[c] = from + (c < count ? c : 0) * next;
      out[c] = to + (c < count ? c : 0) * next;
    }
  }
  __device__ __forceinline__ T load(int c, int x, int y) const {
    return __ldg(in[c] + (int64_t)(y * w + x) * stride);
  }
  __device__ __forceinline__ T pick(int c, int x, int y, bool inside, T fill) const {
    return inside ? load(c, x, y) : fill;
  }
};

/* The pixels that a square of the result comes from: along its rows and columns places only grow, or only fall. x0 is a
 * whole number of quads behind the row's begin. A turned square is at most sqrt(2) times as wide, so that it needs at
 * most BOX_SIDE(size) pixels of a row or column: with both ends, neighbours, and roundings in the largest images. */
#define BOX_SIDE(size) (((size)-1) * 707 / 500 + 4)
struct bounds {
  int x0, x1, y0, y1;
  __device__ bounds(const aug_job &j, const rotate_turn &turn, int left, int top, int size) {
    int right = min(left + size, j.w) - 1, bottom = min(top + size, j.h) - 1;
    float x[4], y[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      x[k] = rotate_x(&turn, k % 2 ? right : left, k / 2 ? bottom : top);
      y[k] = rotate_y(&turn, k % 2 ? right : left, k / 2 ? bottom : top);
    }
    x0 = within(fminf(fminf(x[0], x[1]), fminf(x[2], x[3])), 0, j.w) & ~3;
    x1 = within(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])), 1, j.w);
    y0 = within(fminf(fminf(y[0], y[1]), fminf(y[2], y[3])), 0, j.h);
    y1 = within(fmaxf(fmaxf(y[0], y[1]), fmaxf(y[2], y[3])), 1, j.h);
  }
  static __device__ __forceinline__ int within(float v, int more, int size) {
    return min(max(whole(__fadd_rd(v, MIDDLE)) + more, 0), size - 1);
  }
};

/* What a tile of an image of three channels of bytes comes from, in shared memory, as a word a pixel. Rows must be
 * whole words. The pitch is such that turned rows of lanes meet in few banks. */
template <int PIX> struct byte_box {
  using type = rgb;
  static constexpr int channels = 1;
  static constexpr int high = BOX_SIDE(TILE), quads = (high + 6) / 4, pitch = 104, outside = high * pitch;
  static constexpr int bytes = (outside + 1) * 4;
  static_assert(pitch >= quads * 4 && quads <= 32, "a warp fills a row");
  rgb *words;
  uint8_t *out;
  int w, h, origin;
  static __device__ bool takes(const aug_job &j) {
    return j.w % 4 == 0 && (reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out)) % 4 == 0;
  }
  __device__ byte_box(const aug_job &j, void *shared, const rotate_how &how)
      : words(static_cast<rgb *>(shared)), w(j.w), h(j.h) {
    out = static_cast<uint8_t *>(j.out) + blockIdx.y * (int64_t)3 * w * h;
    if (threadIdx.x == 0) words[outside] = nearest<rgb, 1>(how).fill[0];
  }
  __device__ __forceinline__ rgb load(int, int x, int y) const { return words[y * pitch + x - origin]; }
  __device__ __forceinline__ rgb pick(int, int x, int y, bool inside, rgb) const {
    return words[inside ? y * pitch + x - origin : outside];
  }
  /* Each warp fetches every eighth row; all are on their way before the first is kept. Behind the last one it is
   * fetched again, which costs less than to leave loads out. */
  __device__ __forceinline__ void fill(const aug_job &j, const rotate_turn &turn, int left, int top) {
    constexpr int warps = THREADS / 32, passes = (high + warps - 1) / warps;
    const bounds of(j, turn, left, top, TILE);
    int row = threadIdx.x / 32, quad = threadIdx.x % 32, rows = of.y1 - of.y0 + 1;
    int64_t plane = (int64_t)w * h, next = PIX == 1 ? plane / 4 : 1, down = (int64_t)warps * w * PIX / 4;
    int64_t at = 3 * blockIdx.y * plane + ((int64_t)(of.y0 + row) * w + of.x0 + quad * 4) * PIX;
    const uint32_t *in = reinterpret_cast<const uint32_t *>(static_cast<const uint8_t *>(j.in) + at);
    origin = of.y0 * pitch + of.x0;
    if (row < rows && of.x0 + quad * 4 <= of.x1) {
      uint32_t word[passes][3];
#pragma unroll
      for (int k = 0; k < passes; k++) {
#pragma unroll
        for (int c = 0; c < 3; c++) word[k][c] = __ldg(in + c * next);
        if (row + (k + 1) * warps < rows) in += down;
      }
#pragma unroll
      for (int k = 0; k < passes; k++)
        if (row + k * warps < rows)
          *reinterpret_cast<uint4 *>(words + (row + k * warps) * pitch + quad * 4) = pixels(word[k]);
    }
    __syncthreads();
  }
  /* Four pixels: of a word of each plane, or of three that lie side by side. */
  static __device__ __forceinline__ uint4 pixels(const uint32_t (&v)[3]) {
    if (PIX == 3) return make_uint4(v[0], __byte_perm(v[0], v[1], 0x0543), __byte_perm(v[1], v[2], 0x0432), v[2] >> 8);
    uint32_t low = __byte_perm(v[0], v[1], 0x5140), high = __byte_perm(v[0], v[1], 0x7362);
    return make_uint4(__byte_perm(low, v[2], 0x0410), __byte_perm(low, v[2], 0x0532), __byte_perm(high, v[2], 0x0610),
                      __byte_perm(high, v[2], 0x0732));
  }
};

/* Likewise for floats, as they lie in the image. Rows must be whole 16 bytes. */
template <int PIX> struct float_box : view<float, 3, PIX> {
  static constexpr int high = BOX_SIDE(PART), quads = ((high + 3) * PIX + 3) / 4, planes = PIX == 1 ? 3 : 1;
  static constexpr int pitch = PIX == 1 ? 64 : 160, next = PIX == 1 ? high * pitch : 1;
  static constexpr int bytes = planes * high * pitch * 4;
  static_assert(pitch >= quads * 4, "a row fits");
  float *words;
  int origin;
  static __device__ bool takes(const aug_job &j) { return j.w % 4 == 0 && reinterpret_cast<uintptr_t>(j.in) % 16 == 0; }
  __device__ float_box(const aug_job &j, void *shared, const rotate_how &)
      : view<float, 3, PIX>(j, 0), words(static_cast<float *>(shared)) {}
  __device__ __forceinline__ float load(int c, int x, int y) const {
    return words[y * pitch + x * PIX + c * next - origin];
  }
  __device__ __forceinline__ float pick(int c, int x, int y, bool inside, float fill) const {
    return inside ? load(c, x, y) : fill;
  }
  /* Its quads in order over all threads; all are on their way before the first is kept. */
  __device__ __forceinline__ void fill(const aug_job &j, const rotate_turn &turn, int left, int top) {
    constexpr int passes = (high * quads + THREADS - 1) / THREADS;
    const bounds of(j, turn, left, top, PART);
    int across = ((of.x1 - of.x0 + 1) * PIX + 3) / 4, rows = of.y1 - of.y0 + 1;
    int row = threadIdx.x / across, quad = threadIdx.x - row * across;
    int rows_on = THREADS / across, quads_on = THREADS - rows_on * across, to[passes];
    float4 v[passes][planes];
    origin = of.y0 * pitch + of.x0 * PIX;
#pragma unroll
    for (int k = 0; k < passes; k++) {
      to[k] = row < rows ? row * pitch + quad * 4 : -1;
      int64_t at = ((int64_t)(of.y0 + row) * j.w + of.x0) * PIX + quad * 4;
#pragma unroll
      for (int c = 0; c < planes; c++)
        if (row < rows) v[k][c] = __ldg(reinterpret_cast<const float4 *>(this->in[c] + at));
      row += rows_on;
      quad += quads_on;
      if (quad >= across) quad -= across, row++;
    }
#pragma unroll
    for (int k = 0; k < passes; k++)
#pragma unroll
      for (int c = 0; c < planes; c++)
        if (to[k] >= 0) *reinterpret_cast<float4 *>(words + to[k] + c * next) = v[k][c];
    __syncthreads();
  }
};

#endif
