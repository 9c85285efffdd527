/* SPDX-License-Identifier: MIT
 * batch_rotate_pixel.cuh - how a kernel makes one pixel of a turned image out of a source: something with w and h, with
 * load(c, x, y), and with pick(c, x, y, inside, fill), which is load() where that is inside and else the fill.
 */
#ifndef BATCH_ROTATE_PIXEL_CUH
#define BATCH_ROTATE_PIXEL_CUH

#include <type_traits>

#include "../../kits/aug/kit.cuh"
#include "batch_rotate.h"

/* A pixel of three bytes in one word, the first channel lowest: one channel to those who only move it. Those that are
 * to be weighed have the upper byte of 2^23 as a float on top. Masks have signed words. */
typedef uint32_t rgb;
static constexpr rgb RGB_TOP = 0x4b000000;
template <typename T> constexpr int parts_of = std::is_same_v<T, rgb> ? 3 : 1;

/* v + MIDDLE is v rounded to a whole number, which its low bits are: for |v| < 2^22, far above sizes. */
static constexpr float MIDDLE = 12582912.0f;
static __device__ __forceinline__ int whole(float v) { return __float_as_int(v) - 0x4b400000; }
/* A value's byte, to the nearest: its lowest one. */
static __device__ __forceinline__ uint32_t byte_of(float v) { return __float_as_uint(__fadd_rn(v, MIDDLE)); }
static __device__ __forceinline__ rgb rgb_of(float r, float g, float b) {
  return __byte_perm(__byte_perm(byte_of(r), byte_of(g), 0x0040), byte_of(b), 0x0410);
}

static __device__ __forceinline__ float fill_of(const rotate_how &how, int channel) {
  return how.fills == 1 ? how.fill[0] : how.fill[channel];
}

/* x2 and y2 are twice the place, as rotate_twice_x() has it. */
template <typename T, int C> struct nearest {
  T fill[C];
  __device__ explicit nearest(T value) : fill{value} {}
  __device__ explicit nearest(const rotate_how &how) {
    if constexpr (std::is_same_v<T, rgb>) fill[0] = rgb_of(fill_of(how, 0), fill_of(how, 1), fill_of(how, 2));
    else
#pragma unroll
      for (int c = 0; c < C; c++) fill[c] = aug_to(T(), fill_of(how, c));
  }
  template <typename S>
  __device__ __forceinline__ void pixel(const S &source, float x2, float y2, T (&v)[C]) const {
    int x = whole(__fmaf_rn(x2, 0.5f, MIDDLE)), y = whole(__fmaf_rn(y2, 0.5f, MIDDLE));
    bool inside = (unsigned)x < (unsigned)source.w && (unsigned)y < (unsigned)source.h;
#pragma unroll
    for (int c = 0; c < C; c++) v[c] = source.pick(c, x, y, inside, fill[c]);
  }
  /* N pixels that lie in a row, out of a box: there what is outside is the fill. */
  template <typename S, int N>
  __device__ __forceinline__ void row(const S &box, const float (&x2)[N], const float (&y2)[N], T (&v)[N][C]) const {
#pragma unroll
    for (int k = 0; k < N; k++) {
      const auto *from = box.place(__fmaf_rn(x2[k], 0.5f, MIDDLE), __fmaf_rn(y2[k], 0.5f, MIDDLE));
#pragma unroll
      for (int c = 0; c < C; c++) v[k][c] = from[c * S::next];
    }
  }
};

/* A weight times a part of a value. The low bits of 2^23 + byte are the byte: the product with that, less the product
 * with 2^23, which is exact, is rounded once. */
struct weighing {
  float weight, less;
  __device__ __forceinline__ explicit weighing(float w) {
    weight = w;
    less = __fmul_rn(w, -8388608.0f);
  }
  __device__ __forceinline__ float of(float v, int) const { return __fmul_rn(v, weight); }
  __device__ __forceinline__ float of(uint8_t v, int) const { return __fmul_rn((float)v, weight); }
  __device__ __forceinline__ float of(rgb v, int part) const {
    return __fmaf_rn(__uint_as_float(__byte_perm(v, 0, 0x3440 | part)), weight, less);
  }
};

/* The four pixels that one comes from: (x, y) and those beside, below and beside that, and what each weighs. */
struct spot {
  float mx, my, weight[4];
  __device__ __forceinline__ spot(float x2, float y2) {
    mx = __fmaf_rd(x2, 0.5f, MIDDLE), my = __fmaf_rd(y2, 0.5f, MIDDLE);
    float fx = __fmaf_rn(x2, 0.5f, __fsub_rn(MIDDLE, mx)), fy = __fmaf_rn(y2, 0.5f, __fsub_rn(MIDDLE, my));
    float gx = __fsub_rn(1.0f, fx), gy = __fsub_rn(1.0f, fy);
    weight[0] = __fmul_rn(gx, gy), weight[1] = __fmul_rn(fx, gy);
    weight[2] = __fmul_rn(gx, fy), weight[3] = __fmul_rn(fx, fy);
  }
  template <typename S> __device__ __forceinline__ bool within(const S &s) const {
    return (unsigned)whole(mx) < (unsigned)(s.w - 1) && (unsigned)whole(my) < (unsigned)(s.h - 1);
  }
  /* What lies outside loses its weight. */
  template <typename S> __device__ __forceinline__ void weigh_inside(const S &s, bool (&inside)[4]) {
    int x = whole(mx), y = whole(my);
    bool left = (unsigned)x < (unsigned)s.w, right = (unsigned)(x + 1) < (unsigned)s.w;
    bool top = (unsigned)y < (unsigned)s.h, bottom = (unsigned)(y + 1) < (unsigned)s.h;
    inside[0] = left && top, inside[1] = right && top, inside[2] = left && bottom, inside[3] = right && bottom;
#pragma unroll
    for (int k = 0; k < 4; k++) weight[k] = inside[k] ? weight[k] : 0.0f;
  }
};

/* The order of the sums is that of the cpu. */
template <typename T, int C> struct bilinear {
  static constexpr int parts = parts_of<T>;
  float fill[C * parts];
  __device__ explicit bilinear(const rotate_how &how) {
#pragma unroll
    for (int c = 0; c < C * parts; c++) fill[c] = fill_of(how, c);
  }
  template <typename S>
  __device__ __forceinline__ void pixel(const S &source, float x2, float y2, T (&v)[C]) const {
    spot at(x2, y2);
    float sum[C * parts];
    int x = whole(at.mx), y = whole(at.my);
    if (at.within(source)) {
#pragma unroll
      for (int c = 0; c < C; c++) {
        T t[4] = {source.load(c, x, y), source.load(c, x + 1, y), source.load(c, x, y + 1),
                  source.load(c, x + 1, y + 1)};
        blend(t, at.weight, sum + c * parts);
      }
    } else {
      bool inside[4];
      at.weigh_inside(source, inside);
#pragma unroll
      for (int c = 0; c < C; c++) {
        T t[4];
#pragma unroll
        for (int k = 0; k < 4; k++) t[k] = source.pick(c, x + k % 2, y + k / 2, inside[k], T());
        blend(t, at.weight, sum + c * parts);
      }
      add_fill(at.weight, sum);
    }
    finish(sum, v);
  }
  /* N pixels that lie in a row, out of a box: there what is outside is zero. */
  template <typename S, int N>
  __device__ __forceinline__ void row(const S &box, const float (&x2)[N], const float (&y2)[N], T (&v)[N][C]) const {
#pragma unroll
    for (int k = 0; k < N; k++) {
      spot at(x2[k], y2[k]);
      const auto *from = box.place(at.mx, at.my);
      float sum[C * parts];
#pragma unroll
      for (int c = 0; c < C; c++) {
        const auto *p = from + c * S::next;
        const T t[4] = {p[0], p[S::step], p[S::pitch], p[S::pitch + S::step]};
        blend(t, at.weight, sum + c * parts);
      }
      if (!at.within(box)) {
        bool inside[4];
        at.weigh_inside(box, inside);
        add_fill(at.weight, sum);
      }
      finish(sum, v[k]);
    }
  }

private:
  static __device__ __forceinline__ void finish(const float (&sum)[C * parts], T (&v)[C]) {
#pragma unroll
    for (int c = 0; c < C; c++)
      if constexpr (parts == 3) v[c] = rgb_of(sum[0], sum[1], sum[2]);
      else if constexpr (std::is_integral_v<T>) v[c] = (T)byte_of(sum[c]);
      else v[c] = sum[c];
  }
  __device__ __forceinline__ void add_fill(const float (&weight)[4], float (&sum)[C * parts]) const {
    float all = __fadd_rn(__fadd_rn(__fadd_rn(weight[0], weight[1]), weight[2]), weight[3]);
#pragma unroll
    for (int c = 0; c < C * parts; c++) {
      sum[c] = __fadd_rn(__fmul_rn(all, __fsub_rn(sum[c], fill[c])), fill[c]);
      if (std::is_integral_v<T>) sum[c] = fminf(fmaxf(sum[c], 0.0f), 255.0f);
    }
  }
  static __device__ __forceinline__ void blend(const T (&at)[4], const float (&weight)[4], float *sum) {
    const weighing by[4] = {weighing(weight[0]), weighing(weight[1]), weighing(weight[2]), weighing(weight[3])};
#pragma unroll
    for (int i = 0; i < parts; i++) {
      sum[i] = by[0].of(at[0], i);
#pragma unroll
      for (int k = 1; k < 4; k++) sum[i] = __fadd_rn(sum[i], by[k].of(at[k], i));
    }
  }
};

#endif
