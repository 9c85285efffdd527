/* SPDX-License-Identifier: MIT
 * jpeg.h - what JPEG loses of an image, without the file: colours, half as many of them each way, cosine transforms,
 * quantisation, and all of that back. Whole numbers throughout, with the roundings of the usual library's accurate
 * transforms and smooth upsampling, so that pixels are those that it decodes, on every device. JPEG_INT is one
 * number, or on the CPU a vector of those of several blocks.
 */
#ifndef TONES_JPEG_H
#define TONES_JPEG_H

#include "point.h"

/* The parts of a factor times 2^13. */
#define JPEG_FIX(x) ((int32_t)((x)*8192 + 0.5))
#define JPEG_ROUND(v, n) (((v) + (1 << ((n)-1))) >> (n))

/* The odd parts of both transforms turn four numbers alike: a + b, and so on, by cosines. */
#define JPEG_ODD(a, b, c, d)                                                                                 \
  JPEG_INT p = ((a) + (d)) * -JPEG_FIX(0.899976223), q = ((b) + (c)) * -JPEG_FIX(2.562915447);               \
  JPEG_INT both = ((a) + (c) + (b) + (d)) * JPEG_FIX(1.175875602);                                           \
  JPEG_INT r = ((a) + (c)) * -JPEG_FIX(1.961570560) + both, s = ((b) + (d)) * -JPEG_FIX(0.390180644) + both; \
  a = (a)*JPEG_FIX(0.298631336) + p + r;                                                                     \
  b = (b)*JPEG_FIX(2.053119869) + q + s;                                                                     \
  c = (c)*JPEG_FIX(3.072711026) + q + r;                                                                     \
  d = (d)*JPEG_FIX(1.501321110) + p + s;

/* Eight numbers, `step` apart. Two more bits are kept between rows and columns. */
JPEG_FN void jpeg_forward(JPEG_INT *v, int step, int columns) {
#define V(i) v[(i)*step]
  JPEG_INT a = V(3) - V(4), b = V(2) - V(5), c = V(1) - V(6), d = V(0) - V(7);
  JPEG_INT e = V(0) + V(7), f = V(1) + V(6), g = V(2) + V(5), h = V(3) + V(4);
  JPEG_INT outer = e + h, inner = f + g, high = e - h, low = f - g;
  int bits = columns ? 15 : 11;
  JPEG_INT turn = (low + high) * JPEG_FIX(0.541196100);
  V(0) = columns ? JPEG_ROUND(outer + inner, 2) : (outer + inner) * 4;
  V(4) = columns ? JPEG_ROUND(outer - inner, 2) : (outer - inner) * 4;
  V(2) = JPEG_ROUND(turn + high * JPEG_FIX(0.765366865), bits);
  V(6) = JPEG_ROUND(turn - low * JPEG_FIX(1.847759065), bits);
  JPEG_ODD(a, b, c, d)
  V(7) = JPEG_ROUND(a, bits);
  V(5) = JPEG_ROUND(b, bits);
  V(3) = JPEG_ROUND(c, bits);
  V(1) = JPEG_ROUND(d, bits);
}

JPEG_FN void jpeg_inverse(JPEG_INT *v, int step, int rows) {
  JPEG_INT a = V(7), b = V(5), c = V(3), d = V(1);
  JPEG_INT turn = (V(2) + V(6)) * JPEG_FIX(0.541196100);
  JPEG_INT low = turn - V(6) * JPEG_FIX(1.847759065), high = turn + V(2) * JPEG_FIX(0.765366865);
  JPEG_INT sum = (V(0) + V(4)) * 8192, gap = (V(0) - V(4)) * 8192;
  JPEG_INT e = sum + high, f = gap + low, g = gap - low, h = sum - high;
  int bits = rows ? 18 : 11;
  JPEG_ODD(a, b, c, d)
  V(0) = JPEG_ROUND(e + d, bits);
  V(7) = JPEG_ROUND(e - d, bits);
  V(1) = JPEG_ROUND(f + c, bits);
  V(6) = JPEG_ROUND(f - c, bits);
  V(2) = JPEG_ROUND(g + b, bits);
  V(5) = JPEG_ROUND(g - b, bits);
  V(3) = JPEG_ROUND(h + a, bits);
  V(4) = JPEG_ROUND(h - a, bits);
#undef V
}

/* The standard's example tables, which everybody takes: brightness, colours. */
#define JPEG_TABLES                                                                                                   \
  {                                                                                                                   \
    {16, 11,  10,  16, 24, 40, 51, 61, 12,  12,  14,  19,  26, 58, 60, 55,  14,  13,  16,  24, 40, 57,                \
     69, 56,  14,  17, 22, 29, 51, 87, 80,  62,  18,  22,  37, 56, 68, 109, 103, 77,  24,  35, 55, 64,                \
     81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98,  112, 100, 103, 99},                       \
    {                                                                                                                 \
      17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, \
          99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, \
          99, 99, 99, 99, 99, 99, 99, 99, 99                                                                          \
    }                                                                                                                 \
  }

/* By how much a coefficient is divided at a quality. */
PIXEL_FN int32_t jpeg_divisor(int32_t usual, int quality) {
  int32_t percent = quality < 50 ? 5000 / quality : 200 - 2 * quality, v = (usual * percent + 50) / 100;
  return v < 1 ? 1 : v > 255 ? 255 : v;
}

typedef struct jpeg_colour {
  int32_t y, b, r;
} jpeg_colour;

PIXEL_FN int32_t jpeg_bright(int32_t r, int32_t g, int32_t b) {
  return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
}
PIXEL_FN int32_t jpeg_blue(int32_t r, int32_t g, int32_t b) {
  return (-11059 * r - 21709 * g + 32768 * b + (128 << 16) + 32767) >> 16;
}
PIXEL_FN int32_t jpeg_red(int32_t r, int32_t g, int32_t b) {
  return (32768 * r - 27439 * g - 5329 * b + (128 << 16) + 32767) >> 16;
}
PIXEL_FN int32_t jpeg_cut(int32_t v) { return v < 0 ? 0 : v > 255 ? 255 : v; }
PIXEL_FN int32_t jpeg_r(int32_t y, int32_t red) { return jpeg_cut(y + ((91881 * (red - 128) + 32768) >> 16)); }
PIXEL_FN int32_t jpeg_g(int32_t y, int32_t blue, int32_t red) {
  return jpeg_cut(y + ((-22554 * (blue - 128) - 46802 * (red - 128) + 32768) >> 16));
}
PIXEL_FN int32_t jpeg_b(int32_t y, int32_t blue) { return jpeg_cut(y + ((116130 * (blue - 128) + 32768) >> 16)); }

/* A colour of four: the bias takes turns, so that halves are rounded to both sides. */
PIXEL_FN int32_t jpeg_of_four(int32_t sum, int32_t x) { return (sum + 1 + (x & 1)) >> 2; }

/* Sizes of the planes: brightness, and each of the two colours; of whole blocks. */
typedef struct jpeg_size {
  int32_t w, h, half_w, half_h;         /* pixels */
  int32_t pitch, rows, c_pitch, c_rows; /* in memory */
  int64_t bytes;                        /* all three */
} jpeg_size;

SP_RNG_FN jpeg_size jpeg_size_of(int32_t h, int32_t w, int across) {
  jpeg_size s = {w, h, (w + 1) / 2, (h + 1) / 2, 0, 0, 0, 0, 0};
  int32_t wide = 8 * across;
  s.pitch = (w + wide - 1) / wide * wide;
  s.rows = (h + 7) / 8 * 8;
  s.c_pitch = (s.half_w + wide - 1) / wide * wide;
  s.c_rows = (s.half_h + 7) / 8 * 8;
  s.bytes = (int64_t)s.pitch * s.rows + 2 * (int64_t)s.c_pitch * s.c_rows;
  return s;
}

/* A colour of pixel (x, y) from a plane of half the size: three parts of the nearest, one of the next, each way.
 * Columns come first in sums; tiny images are not smoothed. */
PIXEL_FN int32_t jpeg_smooth(const uint8_t *plane, const jpeg_size *s, int32_t x, int32_t y) {
  int32_t cx = x / 2, cy = y / 2;
  const uint8_t *row = plane + (int64_t)cy * s->c_pitch;
  if (s->half_w <= 2) return row[cx];
  int32_t ny = y & 1 ? cy + 1 : cy - 1, nx = x & 1 ? cx + 1 : cx - 1;
  ny = ny < 0 ? 0 : ny < s->half_h ? ny : s->half_h - 1;
  nx = nx < 0 ? 0 : nx < s->half_w ? nx : s->half_w - 1;
  const uint8_t *next = plane + (int64_t)ny * s->c_pitch;
  int32_t here = 3 * row[cx] + next[cx], there = 3 * row[nx] + next[nx];
  return (3 * here + there + 8 - (x & 1)) >> 4;
}

#endif
