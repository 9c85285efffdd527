/* SPDX-License-Identifier: MIT
 * batch_rotate_source.cuh - the image as a block of a kernel sees it: in memory, or the part of it that a tile of the
 * result comes from in shared memory, which a turned gather reads several times as fast.
 */
#ifndef BATCH_ROTATE_SOURCE_CUH
#define BATCH_ROTATE_SOURCE_CUH

#include "batch_rotate_pixel.cuh"

enum { THREADS = 256 };
enum { CHANNELS = 4 }; /* that a block makes of pixels that have neither 1 nor 3 */

/* What a block makes. Of bytes so much that all blocks are there at the same time where a batch is not large: what
 * comes before the first pixel takes longest. Of larger elements less, so that some blocks fetch while others make. */
template <typename T> struct tile_of {
  static constexpr int wide = 64, high = 32;
};
template <> struct tile_of<uint8_t> {
  static constexpr int wide = 64, high = 64;
};
static __host__ __device__ int tile_wide(const aug_job &j) {
  return j.dtype == SP_U8 ? tile_of<uint8_t>::wide : tile_of<float>::wide;
}
static __host__ __device__ int tile_high(const aug_job &j) {
  return j.dtype == SP_U8 ? tile_of<uint8_t>::high : tile_of<float>::high;
}

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

/* The pixels that a rectangle of the result comes from: along its rows and columns places only grow, or only fall. They
 * may lie outside of the image. x0 is a whole number of quads behind the row's begin. */
struct bounds {
  int x0, x1, y0, y1;
  __device__ bounds(const aug_job &j, const rotate_turn &t, int left, int top, int wide, int high) {
    int right = min(left + wide, j.w) - 1, bottom = min(top + high, j.h) - 1;
    int x_across = t.xx < 0 ? right : left, x_down = t.xy < 0 ? bottom : top; /* where x is least */
    int y_across = t.yx < 0 ? right : left, y_down = t.yy < 0 ? bottom : top;
    x0 = below(rotate_twice_x(&t, x_across, x_down)) & ~3;
    x1 = below(rotate_twice_x(&t, left + right - x_across, top + bottom - x_down)) + 1;
    y0 = below(rotate_twice_y(&t, y_across, y_down));
    y1 = below(rotate_twice_y(&t, left + right - y_across, top + bottom - y_down)) + 1;
  }
  static __device__ __forceinline__ int below(float twice) { return whole(__fmaf_rd(twice, 0.5f, MIDDLE)); }
};

/* A turned rectangle is at most as wide as its diagonal; with both ends, neighbours, and roundings in the largest
 * images. */
static constexpr int box_side(int wide, int high) {
  int side = 1;
  while (side * side < (wide - 1) * (wide - 1) + (high - 1) * (high - 1)) side++;
  return side + 3;
}

/* Where pixels lie in a box whose first one is (x, y) of the image: STEP words apart in a row, rows PITCH words. */
template <int STEP, int PITCH> struct layout {
  uint32_t begin;
  __device__ __forceinline__ void from(int x, int y) {
    constexpr uint32_t zero = 0x4b400000; /* MIDDLE */
    begin = -((x + zero) * (STEP * 4u) + (y + zero) * (PITCH * 4u));
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(begin)); /* one number, which the compiler would take apart again */
#endif
  }
  /* mx, my: MIDDLE + the pixel's. */
  template <typename T> __device__ __forceinline__ const T *of(const T *words, float mx, float my) const {
    uint32_t at = __float_as_uint(my) * (PITCH * 4u) + begin + __float_as_uint(mx) * (STEP * 4u);
    return reinterpret_cast<const T *>(reinterpret_cast<const char *>(words) + at);
  }
};

/* What a tile of an image of three channels of bytes comes from, in shared memory, as a word a pixel; around the image
 * lies the fill, for bilinear() zero. Rows must be whole words. The pitch is such that turned rows of lanes meet in few
 * banks. */
template <int MODE, int PIX> struct byte_box {
  using type = rgb;
  static constexpr int channels = 1, next = 0, step = 1;
  static constexpr int wide = tile_of<uint8_t>::wide, tall = tile_of<uint8_t>::high; /* of the result */
  static constexpr int high = box_side(wide, tall), quads = (high + 6) / 4, pitch = 112, bytes = high * pitch * 4;
  static constexpr uint32_t top = MODE == ROTATE_BILINEAR ? RGB_TOP : 0;
  static_assert(pitch >= quads * 4 && quads <= 32, "a warp fills a row");
  rgb *words, around;
  uint8_t *out, *second, *third; /* planes of the result, where it has some */
  int w, h;
  layout<step, pitch> at;
  static __device__ bool takes(const aug_job &j) {
    return j.w % 4 == 0 && (reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out)) % 4 == 0;
  }
  __device__ byte_box(const aug_job &j, void *shared, const rotate_how &how)
      : words(static_cast<rgb *>(shared)), w(j.w), h(j.h) {
    int64_t plane = (int64_t)w * h;
    around = MODE == ROTATE_BILINEAR ? top : nearest<rgb, 1>(how).fill[0];
    out = static_cast<uint8_t *>(j.out) + blockIdx.y * 3 * plane;
    second = out + plane;
    third = second + plane;
  }
  __device__ __forceinline__ const rgb *place(float mx, float my) const { return at.of(words, mx, my); }
  /* Each warp fetches every eighth row, several before the first of them is kept. */
  __device__ __forceinline__ void fill(const aug_job &j, const rotate_turn &turn, int left, int top) {
    constexpr int warps = THREADS / 32, ahead = MODE == ROTATE_NEAREST ? 12 : 4;
    const bounds of(j, turn, left, top, wide, tall);
    int row = threadIdx.x / 32, quad = threadIdx.x % 32, rows = of.y1 - of.y0 + 1, x = of.x0 + quad * 4;
    int64_t plane = (int64_t)w * h;
    const uint32_t *from[3];
#pragma unroll
    for (int c = 0; c < 3; c++)
      from[c] = reinterpret_cast<const uint32_t *>(static_cast<const uint8_t *>(j.in) + blockIdx.y * 3 * plane) +
                (PIX == 1 ? c * (plane / 4) : c);
    at.from(of.x0, of.y0);
    if (x > of.x1) return;
    bool across = (unsigned)x < (unsigned)w;
    int bottom = max(min(h, of.y1 + 1), 0);
    int word = ((of.y0 + row) * (w / 4) + x / 4) * PIX, down = warps * (w / 4) * PIX;
    uint4 *to = reinterpret_cast<uint4 *>(words + row * pitch + quad * 4);
#pragma unroll 1
    for (; row < rows; row += ahead * warps, to += ahead * warps * pitch / 4) {
      uint32_t v[ahead][3];
      bool inside[ahead];
#pragma unroll
      for (int k = 0; k < ahead; k++, word += down) {
        inside[k] = across && (unsigned)(of.y0 + row + k * warps) < (unsigned)bottom;
#pragma unroll
        for (int c = 0; c < 3; c++)
          if (inside[k]) v[k][c] = __ldg(from[c] + word);
      }
#pragma unroll
      for (int k = 0; k < ahead; k++)
        if (row + k * warps < rows)
          to[k * warps * pitch / 4] = inside[k] ? pixels(v[k]) : make_uint4(around, around, around, around);
    }
  }
  __device__ __forceinline__ void wait() const {}
  /* Four pixels: of a word of each plane, or of three that lie side by side. */
  static __device__ __forceinline__ uint4 pixels(const uint32_t (&v)[3]) {
    constexpr uint32_t tops = (top >> 24) * 0x01010101u;
    if (PIX == 3)
      return make_uint4(__byte_perm(v[0], tops, 0x4210), __byte_perm(__byte_perm(v[0], v[1], 0x0543), tops, 0x4210),
                        __byte_perm(__byte_perm(v[1], v[2], 0x0432), tops, 0x4210), __byte_perm(v[2], tops, 0x4321));
    uint32_t two = __byte_perm(v[0], v[1], 0x5140), more = __byte_perm(v[0], v[1], 0x7362);
    uint32_t third = __byte_perm(v[2], tops, 0x4140), fourth = __byte_perm(v[2], tops, 0x4342);
    return make_uint4(__byte_perm(two, third, 0x5410), __byte_perm(two, third, 0x7632),
                      __byte_perm(more, fourth, 0x5410), __byte_perm(more, fourth, 0x7632));
  }
};

/* 16 bytes to shared memory, arriving later; zeros where not valid. */
static __device__ __forceinline__ void copy_quad(float *to, const float *from, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t place = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(place), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
#else
  *reinterpret_cast<float4 *>(to) = valid ? __ldg(reinterpret_cast<const float4 *>(from)) : make_float4(0, 0, 0, 0);
#endif
}
static __device__ __forceinline__ void wait_for_quads() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

/* What of a row of the image a turned square of the result covers, with a neighbour on each side: what two pairs of its
 * edges leave. */
struct cover {
  float across, across_at, across_by, down, down_at, down_by;
  __device__ cover(const rotate_turn &t, int left, int top, int size) {
    float c = t.xx * t.w * 0.5f, s = t.xy * t.w * 0.5f, half = (size - 1) * 0.5f, slack = 0.25f + (t.w + t.h) * 1e-6f;
    float one = 1.0f / c, other = 1.0f / s; /* either may be infinite */
    across = s * one, across_at = (left + half - t.half_w) * one + t.half_w;
    across_by = fabsf(one) * (half + fabsf(s) + slack);
    down = -c * other, down_at = (top + half - t.half_h) * other + t.half_w;
    down_by = fabsf(other) * (half + fabsf(c) + slack);
  }
  /* Makes first .. last smaller; y: from the image's middle. What is not a number says nothing. */
  __device__ __forceinline__ void row(float y, int &first, int &last) const {
    float a = across_at + across * y, d = down_at + down * y;
    float from = fmaxf(fmaxf(a - across_by, d - down_by), (float)first);
    float to = fminf(fminf(a + across_by, d + down_by), (float)last);
    from = fminf(from, (float)last + 1.0f), to = fmaxf(to, (float)first - 1.0f);
    first = whole(__fadd_rd(from, MIDDLE));
    last = min(whole(__fadd_rd(to, MIDDLE)) + 1, last);
  }
};

/* Likewise for floats, as they lie in the image, a part of a tile at a time; around the image are zeros. Rows must be
 * whole 16 bytes. */
template <int PIX> struct float_box : view<float, 3, PIX> {
  static constexpr int wide = 32, tall = 32; /* of the result */
  static constexpr int high = box_side(wide, tall), quads = (high + 6) / 4, pitch = 160;
  static constexpr int step = PIX, next = PIX == 1 ? quads * 4 : 1, bytes = high * pitch * 4;
  static_assert(pitch >= 3 * quads * 4, "a row fits");
  float *words;
  layout<step, pitch> at;
  static __device__ bool takes(const aug_job &j) { return j.w % 4 == 0 && reinterpret_cast<uintptr_t>(j.in) % 16 == 0; }
  __device__ float_box(const aug_job &j, void *shared, const rotate_how &)
      : view<float, 3, PIX>(j, 0), words(static_cast<float *>(shared)) {}
  __device__ __forceinline__ const float *place(float mx, float my) const { return at.of(words, mx, my); }
  /* So many threads fetch a row: of pixels, or of each plane, and then no more of it than is needed. */
  __device__ __forceinline__ void fill(const aug_job &j, const rotate_turn &turn, int left, int top) {
    constexpr int lanes = PIX == 1 ? 16 : quads * 3, rows = THREADS / lanes;
    const bounds of(j, turn, left, top, wide, tall);
    int lane = threadIdx.x % lanes, row = threadIdx.x / lanes, n = this->w * PIX, y = of.y0 + row;
    int e = lane * 4, end = (of.x1 - of.x0 + 1) * PIX, spans = 0;
    if (PIX == 1) { /* of the rows of this warp, each in a lane */
      const cover of_row(turn, left, top, wide);
      int k = threadIdx.x % 32, r = threadIdx.x / 32 * 2 + k % 2 + k / 2 * rows, first = of.x0, last = of.x1;
      of_row.row((float)(of.y0 + r) - turn.half_h, first, last);
      spans = ((first - of.x0) & ~3) + (last - of.x0 + 1) * 65536;
    }
    at.from(of.x0, of.y0);
#pragma unroll
    for (int k = 0; k * rows < high; k++, y += rows) {
      if (PIX == 1) {
        int span = __shfl_sync(~0u, spans, k * 2 + row % 2);
        e = lane * 4 + (span & 0xffff);
        end = span >> 16;
      }
      if (y > of.y1 || e >= end || row >= rows) continue;
      int x = of.x0 * PIX + e;
      bool inside = (unsigned)y < (unsigned)this->h && (unsigned)x < (unsigned)n;
      float *to = words + (row + k * rows) * pitch + e;
      int64_t from = (int64_t)y * n + x;
#pragma unroll
      for (int c = 0; c < (PIX == 1 ? 3 : 1); c++) copy_quad(to + c * next, this->in[c] + from, inside);
    }
  }
  __device__ __forceinline__ void wait() const { wait_for_quads(); }
};

#endif
