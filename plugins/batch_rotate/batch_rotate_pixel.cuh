/* SPDX-License-Identifier: MIT
 * batch_rotate_pixel.cuh - how a kernel makes one pixel of a turned image out of a source: something with w and h, with
 * load(c, x, y), and with pick(c, x, y, inside, fill), which is load() where that is inside and else the fill.
 */
#ifndef BATCH_ROTATE_PIXEL_CUH
#define BATCH_ROTATE_PIXEL_CUH

#include <type_traits>

#include "../aug/kit.cuh"
#include "batch_rotate.h"

/* A pixel of three bytes in one word, the first channel lowest: one channel to those who only move it. Masks have
 * signed words. */
typedef uint32_t rgb;
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
    return __fmaf_rn(__uint_as_float(__byte_perm(v, 0x4b000000, 0x7650 | part)), weight, less);
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
    float mx = __fmaf_rd(x2, 0.5f, MIDDLE), my = __fmaf_rd(y2, 0.5f, MIDDLE);
    float fx = __fmaf_rn(x2, 0.5f, __fsub_rn(MIDDLE, mx)), fy = __fmaf_rn(y2, 0.5f, __fsub_rn(MIDDLE, my));
    float gx = __fsub_rn(1.0f, fx), gy = __fsub_rn(1.0f, fy);
    float weight[4] = {__fmul_rn(gx, gy), __fmul_rn(fx, gy), __fmul_rn(gx, fy), __fmul_rn(fx, fy)}, sum[C * parts];
    int x = whole(mx), y = whole(my);
    if ((unsigned)x < (unsigned)(source.w - 1) && (unsigned)y < (unsigned)(source.h - 1)) {
#pragma unroll
      for (int c = 0; c < C; c++) {
        T at[4] = {source.load(c, x, y), source.load(c, x + 1, y), source.load(c, x, y + 1),
                   source.load(c, x + 1, y + 1)};
        blend(at, weight, sum + c * parts);
      }
    } else {
      bool left = (unsigned)x < (unsigned)source.w, right = (unsigned)(x + 1) < (unsigned)source.w;
      bool top = (unsigned)y < (unsigned)source.h, bottom = (unsigned)(y + 1) < (unsigned)source.h;
      bool inside[4] = {left && top, right && top, left && bottom, right && bottom};
#pragma unroll
      for (int k = 0; k < 4; k++) weight[k] = inside[k] ? weight[k] : 0.0f;
      float all = __fadd_rn(__fadd_rn(__fadd_rn(weight[0], weight[1]), weight[2]), weight[3]);
#pragma unroll
      for (int c = 0; c < C; c++) {
        T at[4];
#pragma unroll
        for (int k = 0; k < 4; k++) at[k] = source.pick(c, x + k % 2, y + k / 2, inside[k], T());
        blend(at, weight, sum + c * parts);
      }
#pragma unroll
      for (int c = 0; c < C * parts; c++) {
        sum[c] = __fadd_rn(__fmul_rn(all, __fsub_rn(sum[c], fill[c])), fill[c]);
        if (std::is_integral_v<T>) sum[c] = fminf(fmaxf(sum[c], 0.0f), 255.0f);
      }
    }
#pragma unroll
    for (int c = 0; c < C; c++)
      if constexpr (parts == 3) v[c] = rgb_of(sum[0], sum[1], sum[2]);
      else if constexpr (std::is_integral_v<T>) v[c] = (T)byte_of(sum[c]);
      else v[c] = sum[c];
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
