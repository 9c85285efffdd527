/* SPDX-License-Identifier: MIT
 * point.h - what is done to one value, in C and in kernels: the operations of torchvision's tensors, each with the
 * roundings that PyTorch makes, and powers and normal numbers by operations that have the same bits everywhere.
 */
#ifndef TONES_POINT_H
#define TONES_POINT_H

#include "../../stages/color_jitter/pixel.h"
#include "tones.h"

#if defined(__CUDACC__) || defined(SPCORE_CUDA_EMU_H)
#define POINT_FN PIXEL_FN
#define POINT_SQRT(a) __fsqrt_rn(a)
#else
#define POINT_FN static inline __attribute__((always_inline)) /* else loops over the long ones are not vectorised */
#define POINT_SQRT(a) sqrtf(a)
#endif

/* What a look at a whole channel finds; the mean is that of the image's greys, with its first channel. */
typedef struct tones_look {
  float lo, hi, mean, unused;
  uint8_t table[256]; /* of equalize */
} tones_look;

POINT_FN float point_of_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, 4);
  return v;
}
POINT_FN uint32_t point_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return bits;
}

/* A positive v as m * 2^e with m in 0.7 .. 1.4. */
POINT_FN float point_parts(float v, float *e) {
  uint32_t bits = point_bits(v), from = 0x3f3504f3u; /* sqrt(1/2) */
  int32_t power = (int32_t)(bits - from) >> 23;
  *e = (float)power;
  return point_of_bits(bits - ((uint32_t)power << 23));
}

/* The logarithm of m near 1: 2 artanh((m - 1) / (m + 1)). */
POINT_FN float point_log(float m) {
  float s = PIXEL_DIV(PIXEL_SUB(m, 1.0f), PIXEL_ADD(m, 1.0f)), q = PIXEL_MUL(s, s), p = 2.0f / 9;
  p = PIXEL_ADD(PIXEL_MUL(p, q), 2.0f / 7);
  p = PIXEL_ADD(PIXEL_MUL(p, q), 2.0f / 5);
  p = PIXEL_ADD(PIXEL_MUL(p, q), 2.0f / 3);
  p = PIXEL_ADD(PIXEL_MUL(p, q), 2.0f);
  return PIXEL_MUL(p, s);
}

/* 2^v for v <= 0 or a little above; below -126 it is 0. */
POINT_FN float point_exp2(float v) {
  float low = v < -126.0f ? -126.0f : v;
  low = low > 126.0f ? 126.0f : low;
  float n = PIXEL_SUB(PIXEL_ADD(low, 12582912.0f), 12582912.0f), r = PIXEL_MUL(PIXEL_SUB(low, n), 0.693147182f);
  float p = 1.0f / 5040;
  p = PIXEL_ADD(PIXEL_MUL(p, r), 1.0f / 720);
  p = PIXEL_ADD(PIXEL_MUL(p, r), 1.0f / 120);
  p = PIXEL_ADD(PIXEL_MUL(p, r), 1.0f / 24);
  p = PIXEL_ADD(PIXEL_MUL(p, r), 1.0f / 6);
  p = PIXEL_ADD(PIXEL_MUL(p, r), 0.5f);
  p = PIXEL_ADD(PIXEL_MUL(p, r), 1.0f);
  p = PIXEL_ADD(PIXEL_MUL(p, r), 1.0f);
  p = PIXEL_MUL(p, point_of_bits((uint32_t)((int32_t)n + 127) << 23));
  return PIXEL_IF(v < -126.0f, 0.0f, p);
}

/* v to the power `by` for v in 0 .. 1; what is below 1e-30 counts as 0. */
POINT_FN float point_power(float v, float by) {
  float at = v > 1e-30f ? v : 1.0f, e;
  float m = point_parts(at, &e);
  float y = point_exp2(PIXEL_MUL(by, PIXEL_ADD(e, PIXEL_MUL(point_log(m), 1.44269502f))));
  return PIXEL_IF(v > 1e-30f, y, PIXEL_IF(by == 0.0f, 1.0f, 0.0f));
}

/* A value 0 .. 1 after gamma, cut to that. */
POINT_FN float point_gamma(float v, float by, float gain) {
  v = PIXEL_MUL(gain, point_power(v, by));
  return v > 1.0f ? 1.0f : v;
}

POINT_FN float point_posterize(float v, float levels, float max) {
  v = PIXEL_MUL(v, PIXEL_DIV(levels, max));
  v = v < levels - 1.0f ? v : levels - 1.0f;
  v = v > 0.0f ? v : 0.0f;
  return PIXEL_MUL((float)(int32_t)v, PIXEL_DIV(max, levels));
}

POINT_FN float point_stretch(float v, float lo, float scale, float max) {
  return pixel_clamp(PIXEL_MUL(PIXEL_SUB(v, lo), scale), max);
}
/* What a channel of lo..hi is stretched by, as PyTorch divides a number by a tensor; one that has no range stays. */
PIXEL_FN float point_scale(float *lo, float hi, float max) {
  if (*lo < hi) return PIXEL_MUL(PIXEL_DIV(1.0f, PIXEL_SUB(hi, *lo)), max);
  *lo = 0.0f;
  return 1.0f;
}

/* A float image's value as a byte, as PyTorch makes it. */
PIXEL_FN int32_t point_byte(float v, float max) {
  v = PIXEL_MUL(PIXEL_DIV(v, max), 255.999f);
  v = v > 0.0f ? v : 0.0f;
  return (int32_t)(v < 255.0f ? v : 255.0f);
}
PIXEL_FN float point_float(int32_t byte, float max) { return PIXEL_MUL(PIXEL_DIV((float)byte, 255.0f), max); }

/* Operations on bytes that are a table: what becomes of byte i. */
PIXEL_FN uint8_t point_entry(int op, float by, float gain, const tones_look *look, int i) {
  float v = (float)i, max = 255.0f;
  switch (op) {
    case TONES_SOLARIZE: return (uint8_t)(i >= (int)ceilf(PIXEL_SUB(PIXEL_MUL(by, 255.0f), 0.001f)) ? 255 - i : i);
    case TONES_POSTERIZE: return (uint8_t)(i & ~(0xff >> (int)by));
    case TONES_INVERT: return (uint8_t)(255 - i);
    case TONES_GAMMA: return (uint8_t)PIXEL_MUL(point_gamma(PIXEL_DIV(v, 255.0f), by, gain), 255.999f);
    case TONES_AUTOCONTRAST: {
      float lo = look->lo, scale = point_scale(&lo, look->hi, max);
      return (uint8_t)point_stretch(v, lo, scale, max);
    }
    case TONES_EQUALIZE: return look->table[i];
    case TONES_BRIGHTNESS: return (uint8_t)pixel_blend(v, by, 0.0f, 1, max);
    case TONES_CONTRAST: return (uint8_t)pixel_blend(v, by, PIXEL_MUL(PIXEL_SUB(1.0f, by), look->mean), 1, max);
    default: return (uint8_t)i;
  }
}

/* The same of a float image's value. */
PIXEL_FN float point_value(int op, float by, float gain, float max, const tones_look *look, float v) {
  switch (op) {
    case TONES_SOLARIZE: return v >= PIXEL_MUL(by, max) ? PIXEL_SUB(max, v) : v;
    case TONES_POSTERIZE: return point_posterize(v, (float)(1 << (int)by), max);
    case TONES_INVERT: return PIXEL_SUB(max, v);
    case TONES_GAMMA: return PIXEL_MUL(point_gamma(PIXEL_DIV(v, max), by, gain), max);
    case TONES_AUTOCONTRAST: {
      float lo = look->lo, scale = point_scale(&lo, look->hi, max);
      return point_stretch(v, lo, scale, max);
    }
    case TONES_EQUALIZE: return point_float(look->table[point_byte(v, max)], max);
    case TONES_BRIGHTNESS: return pixel_blend(v, by, 0.0f, 0, max);
    case TONES_CONTRAST: return pixel_blend(v, by, PIXEL_MUL(PIXEL_SUB(1.0f, by), look->mean), 0, max);
    default: return v;
  }
}

/* equalize: from the counts of all 256 bytes to what becomes of each. */
PIXEL_FN void point_equalize(const uint32_t *count, uint8_t *table) {
  uint32_t all = 0, last = 0, sum;
  for (int i = 0; i < 256; i++) {
    all += count[i];
    if (count[i]) last = count[i];
  }
  uint32_t step = (all - last) / 255;
  sum = step / 2;
  for (int i = 0; i < 256; i++) {
    uint32_t v = step ? sum / step : (uint32_t)i;
    table[i] = (uint8_t)(v < 255 ? v : 255);
    sum += count[i];
  }
}

/* Greys are added up as whole numbers, so that their order has no say: so many of them make white. */
#define POINT_GREYS 1073741824.0 /* 2^30; an image has at most as many pixels */
PIXEL_FN int64_t point_grey_sum(float grey, float max) {
  double v = AUG_DMUL((double)grey, POINT_GREYS / (double)max);
  v = v > 0.0 ? v : 0.0;
  return (int64_t)(v < POINT_GREYS ? v : POINT_GREYS);
}
PIXEL_FN float point_grey_mean(int64_t sum, int64_t pixels, float max) {
  return (float)((double)sum / (double)pixels / (POINT_GREYS / (double)max));
}

/* ---- sharpness ---- */
/* Around a byte: it and its eight neighbours, itself five times, over 13, to the nearest. */
POINT_FN float point_smooth_byte(int32_t sum, int32_t middle) { return (float)((2 * (sum + 4 * middle) + 13) / 26); }
/* Of a float: rows of three in their order. */
PIXEL_FN float point_smooth(const float a[3], const float b[3], const float c[3]) {
  float one = 1.0f / 13, s = PIXEL_MUL(a[0], one);
  s = PIXEL_ADD(s, PIXEL_MUL(a[1], one));
  s = PIXEL_ADD(s, PIXEL_MUL(a[2], one));
  s = PIXEL_ADD(s, PIXEL_MUL(b[0], one));
  s = PIXEL_ADD(s, PIXEL_MUL(b[1], 5.0f / 13));
  s = PIXEL_ADD(s, PIXEL_MUL(b[2], one));
  s = PIXEL_ADD(s, PIXEL_MUL(c[0], one));
  s = PIXEL_ADD(s, PIXEL_MUL(c[1], one));
  return PIXEL_ADD(s, PIXEL_MUL(c[2], one));
}
POINT_FN float point_sharpen(float v, float smooth, float by, int bytes, float max) {
  return pixel_blend(v, by, PIXEL_MUL(PIXEL_SUB(1.0f, by), smooth), bytes, max);
}

/* ---- noise ---- */
/* Two normal numbers of two words, after Box and Muller. */
POINT_FN void point_normal(uint32_t a, uint32_t b, float *x, float *y) {
  float e, m = point_parts((float)((int32_t)(a >> 8) + 1) * (1.0f / 16777216.0f), &e);
  float far = PIXEL_MUL(-2.0f, PIXEL_ADD(PIXEL_MUL(e, 0.693147182f), point_log(m)));
  far = POINT_SQRT(far > 0.0f ? far : 0.0f);
  /* a part of a turn, -1/2 .. 1/2, of which the nearest quarter is taken off */
  float turn = (float)((int32_t)b >> 8) * (1.0f / 16777216.0f);
  float quarter = PIXEL_SUB(PIXEL_ADD(PIXEL_MUL(turn, 4.0f), 12582912.0f), 12582912.0f);
  float t = PIXEL_MUL(PIXEL_SUB(turn, PIXEL_MUL(quarter, 0.25f)), 6.28318531f), q = PIXEL_MUL(t, t);
  float s = PIXEL_ADD(PIXEL_MUL(1.0f / 362880, q), -1.0f / 5040);
  s = PIXEL_ADD(PIXEL_MUL(s, q), 1.0f / 120);
  s = PIXEL_ADD(PIXEL_MUL(s, q), -1.0f / 6);
  s = PIXEL_ADD(PIXEL_MUL(s, q), 1.0f);
  s = PIXEL_MUL(s, t);
  float c = PIXEL_ADD(PIXEL_MUL(1.0f / 40320, q), -1.0f / 720);
  c = PIXEL_ADD(PIXEL_MUL(c, q), 1.0f / 24);
  c = PIXEL_ADD(PIXEL_MUL(c, q), -0.5f);
  c = PIXEL_ADD(PIXEL_MUL(c, q), 1.0f);
  int32_t k = (int32_t)quarter; /* -2 .. 2 */
  int odd = k & 1, back = k & 2;
  float sine = PIXEL_IF(odd, c, s), cosine = PIXEL_IF(odd, s, c);
  sine = PIXEL_IF(back != 0, -sine, sine);
  cosine = PIXEL_IF(((k + 1) & 2) != 0, -cosine, cosine);
  *x = PIXEL_MUL(far, cosine);
  *y = PIXEL_MUL(far, sine);
}

/* Noise is a function of channel, row and column alone: four columns make a draw. */
PIXEL_FN uint64_t point_noise_key(uint64_t key, int64_t channel) {
  return key + (uint64_t)(channel + 1) * 0x9E3779B97F4A7C15u;
}
PIXEL_FN uint32_t point_noise_draw(int64_t y, int32_t w, int32_t four) {
  return (uint32_t)(TONES_NOISE_DRAWS + y * ((w + 3) / 4) + four);
}
POINT_FN uint8_t point_noisy_byte(float v, float z, float sigma, float mean) {
  v = PIXEL_ADD(v, PIXEL_MUL(PIXEL_ADD(mean, PIXEL_MUL(sigma, z)), 255.0f));
  v = v > 0.0f ? v : 0.0f;
  v = v < 255.0f ? v : 255.0f;
  return (uint8_t)(int32_t)PIXEL_SUB(PIXEL_ADD(v, 12582912.0f), 12582912.0f);
}
POINT_FN float point_noisy(float v, float z, float sigma, float mean, float max, int clip) {
  v = PIXEL_ADD(v, PIXEL_MUL(PIXEL_ADD(mean, PIXEL_MUL(sigma, z)), max));
  return clip ? pixel_clamp(v, max) : v;
}

/* ---- moves ---- */
/* Where pixel (x, y) comes from, as PyTorch's affine grid has it: see rotate_turn in batch_rotate.h. */
typedef struct point_move {
  float xx, xy, x0, yx, yy, y0, half_w, half_h, w, h;
} point_move;

PIXEL_FN point_move point_move_of(int op, float by, int32_t h, int32_t w) {
  double way = -aug_radians((double)by);
  float xx = 1.0f, xy = 0.0f, x0 = 0.0f, yx = 0.0f, yy = 1.0f, y0 = 0.0f, wide = (float)w * 0.5f,
        high = (float)h * 0.5f;
  if (op == TONES_ROTATE) xx = yy = (float)aug_sine(way, 1), xy = (float)aug_sine(way, 0), yx = -xy;
  if (op == TONES_SHEAR_X) xy = by, x0 = PIXEL_MUL(by, high);
  if (op == TONES_SHEAR_Y) yx = by, y0 = PIXEL_MUL(by, wide);
  if (op == TONES_MOVE_X) x0 = -by;
  if (op == TONES_MOVE_Y) y0 = -by;
  point_move m = {PIXEL_DIV(xx, wide),
                  PIXEL_DIV(xy, wide),
                  PIXEL_DIV(x0, wide),
                  PIXEL_DIV(yx, high),
                  PIXEL_DIV(yy, high),
                  PIXEL_DIV(y0, high),
                  (float)(w - 1) * 0.5f,
                  (float)(h - 1) * 0.5f,
                  (float)w,
                  (float)h};
  return m;
}

PIXEL_FN float point_placed(float by_x, float by_y, float by_none, float size) {
  float g = PIXEL_ADD(PIXEL_ADD(by_x, by_y), by_none);
  float v = PIXEL_MUL(PIXEL_SUB(PIXEL_MUL(PIXEL_ADD(g, 1.0f), size), 1.0f), 0.5f);
  v = v < -4194304.0f ? -4194304.0f : v;
  v = v > 4194304.0f ? 4194304.0f : v;
  return PIXEL_SUB(PIXEL_ADD(v, 12582912.0f), 12582912.0f);
}
/* The pixel, or -1 outside of the image. */
PIXEL_FN int32_t point_from(const point_move *m, int32_t x, int32_t y, int32_t h, int32_t w) {
  float px = PIXEL_SUB((float)x, m->half_w), py = PIXEL_SUB((float)y, m->half_h);
  int32_t sx = (int32_t)point_placed(PIXEL_MUL(px, m->xx), PIXEL_MUL(py, m->xy), m->x0, m->w);
  int32_t sy = (int32_t)point_placed(PIXEL_MUL(px, m->yx), PIXEL_MUL(py, m->yy), m->y0, m->h);
  int inside = (sx >= 0) & (sx < w) & (sy >= 0) & (sy < h);
  return inside ? sy * w + sx : -1;
}

#endif
