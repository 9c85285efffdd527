/* SPDX-License-Identifier: MIT
 * turn.cuh - the turn of a pixel's hue in a few instructions: the same bits as pixel_hue gives, without its comparisons
 * and its long divisions.
 *
 * That holds for what pictures hold: values 0..1 whose differences are 0 or not tiny. Others take the long way.
 */
#ifndef COLOR_JITTER_TURN_CUH
#define COLOR_JITTER_TURN_CUH

#include "pixel.h"

/* v / D by two instructions: 1 / D as two floats. The quotient is rounded once, and for these D it comes out as that of
 * a division for every v whose product with `rest` is no subnormal. */
template <int D> static __device__ __forceinline__ float turn_part(float v) {
  static_assert(D == 6 || D == 255, "tried with every mantissa for these");
  constexpr float inverse = 1.0f / D, rest = (float)(1.0 / D - (double)inverse);
  return __fmaf_rn(v, inverse, __fmul_rn(v, rest));
}

/* 1 / v within an ulp. */
static __device__ __forceinline__ float turn_inverse(float v) {
#ifdef __CUDACC__
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(v));
  return v;
#else
  return 1.0f / v;
#endif
}

/* a / b of numbers far from where floats end: an inverse that is bettered `FIRST` times, and a quotient that is, `THEN`
 * times; the last step rounds as a division does. 1, 2 is what the compiler makes of any such division; 1, 1 does for
 * the differences of three k / 255 and 0, 1 for that of two by the greater of them: all of these were tried, with
 * inverses up to two ulps away. */
template <int FIRST, int THEN> static __device__ __forceinline__ float turn_ratio(float a, float b) {
  float y = turn_inverse(b);
  if (FIRST) y = __fmaf_rn(y, __fmaf_rn(-b, y, 1.0f), y);
  float q = __fmul_rn(a, y);
#pragma unroll
  for (int i = 0; i < THEN; i++) q = __fmaf_rn(__fmaf_rn(-b, q, a), y, q);
  return q;
}

#define TURN_WHOLE 12582912.0f /* added to a small number: the sum is a whole one */
#define TURN_BYTE 8388608.0f   /* the same for 0..255, which is then the lowest byte of the sum's bits */
#define TURN_TINY 0x1p-60f

/* The values of a pixel by their size, as bits: in the order of floats of 0 and more; all others are above 1. */
struct turn_ranks {
  uint32_t high, middle, low;
};

static __device__ __forceinline__ turn_ranks turn_rank(pixel v) {
  uint32_t r = __float_as_uint(v.r), g = __float_as_uint(v.g), b = __float_as_uint(v.b);
  uint32_t high = max(max(r, g), b), low = min(min(r, g), b);
  return {high, r ^ g ^ b ^ (high ^ low), low};
}

static __device__ __forceinline__ float turn_span(const turn_ranks &k) {
  return __fsub_rn(__uint_as_float(k.high), __uint_as_float(k.low));
}

/* Of values 0..1. Each colour is high * (1 - s * u), where u depends on how far the hue is from the colour's own
 * sectors: 0 there, 1 opposite, and in between exactly the f or 1 - f of pixel_turn. */
template <bool BYTES> static __device__ __forceinline__ pixel turn(pixel v, float by) {
  turn_ranks rank = turn_rank(v);
  float high = __uint_as_float(rank.high), span = turn_span(rank);
  constexpr int first = BYTES ? 0 : 1, then = BYTES ? 1 : 2;
  float s = turn_ratio<first, then>(span, fmaxf(high, TURN_TINY));
  float m = turn_ratio<1, then>(__fsub_rn(high, __uint_as_float(rank.middle)), fmaxf(span, TURN_TINY));
  /* What lies lowest has a quotient of 1. */
  bool rg = v.r >= v.g, gb = v.g >= v.b, br = v.b > v.r;
  float top = __float_as_uint(v.r) == rank.high ? 1.0f : __float_as_uint(v.g) == rank.high ? 3.0f : 5.0f;
  float h = (rg != gb) != br ? __fsub_rn(__fadd_rn(top - 1.0f, m), 1.0f) : __fsub_rn(top, m);
  h = __fadd_rn(turn_part<6>(h), 1.0f);
  h = __fsub_rn(h, h >= 1.0f ? 1.0f : 0.0f);
  h = __fadd_rn(h, by);
  h = __fsub_rn(h, __fsub_rn(__fadd_rd(h, TURN_WHOLE), TURN_WHOLE));
  float six = __fmul_rn(h, 6.0f);
  float ur = __saturatef(__fsub_rn(2.0f, fabsf(__fsub_rn(six, 3.0f))));
  float ug = __fadd_rn(__saturatef(__fsub_rn(1.0f, six)), __saturatef(__fsub_rn(six, 3.0f)));
  float ub = __fadd_rn(__saturatef(__fsub_rn(3.0f, six)), __saturatef(__fsub_rn(six, 5.0f)));
  pixel y = {__fmul_rn(high, __fsub_rn(1.0f, __fmul_rn(s, ur))), __fmul_rn(high, __fsub_rn(1.0f, __fmul_rn(s, ug))),
             __fmul_rn(high, __fsub_rn(1.0f, __fmul_rn(s, ub)))};
  return y;
}

/* Of whole numbers 0..255, to which TURN_BYTE is added, as it is to the result. No product with 255 is rounded up to a
 * whole number, so it may be cut at once. */
static __device__ __forceinline__ pixel turn_bytes(pixel v, float by) {
  pixel x = {turn_part<255>(__fsub_rn(v.r, TURN_BYTE)), turn_part<255>(__fsub_rn(v.g, TURN_BYTE)),
             turn_part<255>(__fsub_rn(v.b, TURN_BYTE))};
  pixel y = turn<true>(x, by);
  pixel z = {__fmaf_rz(255.0f, y.r, TURN_BYTE), __fmaf_rz(255.0f, y.g, TURN_BYTE), __fmaf_rz(255.0f, y.b, TURN_BYTE)};
  return z;
}

static __device__ __noinline__ pixel turn_long(pixel v, float by, int wide) { return pixel_hue(v, by, 0, wide, 1.0f); }

/* Pixels of floats; `wide`: of 0..255; PLAIN: all are 0..1 for sure. */
template <int P, bool PLAIN> static __device__ __forceinline__ void turn_floats(pixel (&v)[P], float by, bool wide) {
  pixel x[P];
  uint32_t most = 0, nearest = 0xffffffffu; /* 0 less 1 is far */
#pragma unroll
  for (int i = 0; i < P; i++) {
    x[i] = v[i];
    if (!PLAIN && wide) x[i] = {turn_part<255>(v[i].r), turn_part<255>(v[i].g), turn_part<255>(v[i].b)};
    turn_ranks rank = turn_rank(x[i]);
    if (!PLAIN) most = max(most, rank.high);
    nearest = min(nearest, __float_as_uint(turn_span(rank)) - 1u);
  }
  if (most > __float_as_uint(1.0f) || nearest < __float_as_uint(TURN_TINY) - 1u) {
#pragma unroll
    for (int i = 0; i < P; i++) v[i] = turn_long(v[i], by, wide);
    return;
  }
#pragma unroll
  for (int i = 0; i < P; i++) {
    v[i] = turn<false>(x[i], by);
    if (!PLAIN && wide) v[i] = {__fmul_rn(v[i].r, 255.0f), __fmul_rn(v[i].g, 255.0f), __fmul_rn(v[i].b, 255.0f)};
  }
}

#endif
