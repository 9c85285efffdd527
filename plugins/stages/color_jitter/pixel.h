/* SPDX-License-Identifier: MIT
 * pixel.h - what is done to one pixel, in C and in kernels: the operations of torchvision's functional_tensor, each
 * with the roundings that PyTorch makes, so bytes and floats come out the same on every device.
 *
 * Bytes are worked on as floats of whole numbers 0..255: after each step they are cut to such a number again, as
 * torchvision stores them in between. They have max = 255; floats have the max of the parameter.
 */
#ifndef COLOR_JITTER_PIXEL_H
#define COLOR_JITTER_PIXEL_H

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__) || defined(SPCORE_CUDA_EMU_H)
#define PIXEL_FN static __device__ __forceinline__
#define PIXEL_MUL(a, b) __fmul_rn(a, b)
#define PIXEL_ADD(a, b) __fadd_rn(a, b)
#define PIXEL_SUB(a, b) __fsub_rn(a, b)
#define PIXEL_DIV(a, b) __fdiv_rn(a, b)
#define PIXEL_IF(yes, a, b) ((yes) ? (a) : (b))
#else
#define PIXEL_FN static inline
#define PIXEL_MUL(a, b) ((a) * (b))
#define PIXEL_ADD(a, b) ((a) + (b))
#define PIXEL_SUB(a, b) ((a) - (b))
#define PIXEL_DIV(a, b) ((a) / (b))
#define PIXEL_IF(yes, a, b) pixel_if(yes, a, b)
/* Without a jump: compilers that see the order of many comparisons make a tree of jumps, and no vector loop. */
static inline float pixel_if(int yes, float a, float b) {
  uint32_t x, y, mask = 0u - (uint32_t)yes;
  memcpy(&x, &a, 4);
  memcpy(&y, &b, 4);
  x = (x & mask) | (y & ~mask);
  memcpy(&a, &x, 4);
  return a;
}
#endif

typedef struct pixel {
  float r, g, b;
} pixel;

/* Bytes: NaN, which only huge factors make, becomes 0. Here and below max is no constant, though it may be 255 or 1
 * only: a compiler that knows it skips the second comparison after the first by a jump, and then has no vector loop. */
PIXEL_FN float pixel_cut(float v, float max) {
  v = v > 0.0f ? v : 0.0f;
  v = v < max ? v : max;
  return (float)(int32_t)v;
}

/* Floats: NaN stays. */
PIXEL_FN float pixel_clamp(float v, float max) {
  v = v < 0.0f ? 0.0f : v;
  return v > max ? max : v;
}

PIXEL_FN float pixel_store(float v, int bytes, float max) { return bytes ? pixel_cut(v, max) : pixel_clamp(v, max); }

/* by * v + other, where other = (1 - by) * what v is blended with. */
PIXEL_FN float pixel_blend(float v, float by, float other, int bytes, float max) {
  return pixel_store(PIXEL_ADD(PIXEL_MUL(by, v), other), bytes, max);
}

PIXEL_FN float pixel_grey(float r, float g, float b, int bytes) {
  float v = PIXEL_ADD(PIXEL_ADD(PIXEL_MUL(0.2989f, r), PIXEL_MUL(0.587f, g)), PIXEL_MUL(0.114f, b));
  return bytes ? (float)(int32_t)v : v;
}

PIXEL_FN pixel pixel_saturate(pixel v, float by, int bytes, float max) {
  float other = PIXEL_MUL(PIXEL_SUB(1.0f, by), pixel_grey(v.r, v.g, v.b, bytes));
  pixel y = {pixel_blend(v.r, by, other, bytes, max), pixel_blend(v.g, by, other, bytes, max),
             pixel_blend(v.b, by, other, bytes, max)};
  return y;
}

/* Through HSV, of values 0..1; white is 1. */
PIXEL_FN pixel pixel_turn(pixel v, float by, float white) {
  float high = v.r > v.g ? v.r : v.g, low = v.r > v.g ? v.g : v.r;
  high = v.b > high ? v.b : high;
  low = v.b < low ? v.b : low;
  float span = PIXEL_SUB(high, low);
  float s = PIXEL_DIV(span, high == low ? 1.0f : high), d = high == low ? 1.0f : span;
  /* (sector + how far the one is below) - how far the other is */
  float sector = high == v.g ? 2.0f : 4.0f, one = high == v.g ? v.r : v.g, two = high == v.g ? v.b : v.r;
  sector = high == v.r ? 0.0f : sector;
  one = high == v.r ? v.b : one;
  two = high == v.r ? v.g : two;
  float h = PIXEL_SUB(PIXEL_ADD(sector, PIXEL_DIV(PIXEL_SUB(high, one), d)), PIXEL_DIV(PIXEL_SUB(high, two), d));
  h = PIXEL_ADD(PIXEL_DIV(h, 6.0f), 1.0f);
  h = PIXEL_SUB(h, h >= white ? 1.0f : 0.0f);
  h = PIXEL_ADD(h, by);
  float back = h >= white ? 1.0f : 0.0f;
  h = PIXEL_SUB(h, h < 0.0f ? -1.0f : back);
  float six = PIXEL_MUL(h, 6.0f);
  int below1 = six < 1.0f, below2 = six < 2.0f, below3 = six < 3.0f;
  int below4 = six < 4.0f, below5 = six < 5.0f, below6 = six < 6.0f;
  float f = PIXEL_SUB(six, (float)(6 - below1 - below2 - below3 - below4 - below5 - below6));
  float p = pixel_clamp(PIXEL_MUL(high, PIXEL_SUB(1.0f, s)), white);
  float q = pixel_clamp(PIXEL_MUL(high, PIXEL_SUB(1.0f, PIXEL_MUL(s, f))), white);
  float t = pixel_clamp(PIXEL_MUL(high, PIXEL_SUB(1.0f, PIXEL_MUL(s, PIXEL_SUB(1.0f, f)))), white);
  /* the sixth sector is the first again; f is 0 there, so that t is p */
  float r = PIXEL_IF(below1, high, PIXEL_IF(below2, q, PIXEL_IF(below4, p, PIXEL_IF(below5, t, high))));
  float g = PIXEL_IF(below1, t, PIXEL_IF(below3, high, PIXEL_IF(below4, q, p)));
  float b = PIXEL_IF(below2, p, PIXEL_IF(below3, t, PIXEL_IF(below5, high, PIXEL_IF(below6, q, p))));
  pixel y = {r, g, b};
  return y;
}

PIXEL_FN float pixel_whole(float v) { return (float)(int32_t)v; }

/* wide: values are 0..255, bytes or not. white is 1. */
PIXEL_FN pixel pixel_hue(pixel v, float by, int bytes, int wide, float white) {
  if (!wide) return pixel_turn(v, by, white);
  pixel x = {PIXEL_DIV(v.r, 255.0f), PIXEL_DIV(v.g, 255.0f), PIXEL_DIV(v.b, 255.0f)};
  pixel y = pixel_turn(x, by, white);
  pixel z = {PIXEL_MUL(y.r, 255.0f), PIXEL_MUL(y.g, 255.0f), PIXEL_MUL(y.b, 255.0f)};
  if (!bytes) return z;
  pixel whole = {pixel_whole(z.r), pixel_whole(z.g), pixel_whole(z.b)};
  return whole;
}

#endif
