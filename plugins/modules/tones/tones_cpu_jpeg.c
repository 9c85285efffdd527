/* SPDX-License-Identifier: MIT
 * tones_cpu_jpeg.c - what JPEG leaves of a sample, on the CPU: eight blocks beside each other are one vector. */
#include "tones_cpu.h"

#include <string.h>

enum { BLOCKS = 8 };
typedef int32_t ints __attribute__((vector_size(4 * BLOCKS)));
typedef float floats __attribute__((vector_size(4 * BLOCKS)));

#define JPEG_INT ints
#define JPEG_FN static inline __attribute__((always_inline))
#include "jpeg.h"

/* By what a coefficient is divided: eight times that, as the transform leaves it, and one over it. */
typedef struct divisors {
  int32_t by[64];
  float part[64];
} divisors;

static void divisors_of(divisors *d, int table, int quality) {
  static const uint8_t usual[2][64] = JPEG_TABLES;
  for (int i = 0; i < 64; i++) {
    d->by[i] = jpeg_divisor(usual[table][i], quality);
    d->part[i] = 1.0f / (float)(8 * d->by[i]);
  }
}

/* To the nearest multiple, half away from 0. Numbers are below 2^17: one over the divisor is good enough for them. */
JPEG_FN void quantise_one(ints *v, int32_t by, float part) {
  ints minus = *v < 0, far = (*v ^ minus) - minus;
  floats q = (__builtin_convertvector(far + 4 * by, floats) + 0.5f) * part;
  ints n = __builtin_convertvector(q, ints) * by;
  *v = (n ^ minus) - minus;
}

/* Eight blocks side by side, in place. */
AUG_VEC static void blocks(uint8_t *plane, int64_t pitch, const divisors *d) {
  ints v[64];
  int32_t *one = (int32_t *)v; /* which vectors may be looked at as */
  for (int y = 0; y < 8; y++)
    for (int x = 0; x < 8; x++)
      for (int b = 0; b < BLOCKS; b++) one[(8 * y + x) * BLOCKS + b] = plane[y * pitch + 8 * b + x] - 128;
  for (int y = 0; y < 8; y++) jpeg_forward(&v[8 * y], 1, 0);
  for (int x = 0; x < 8; x++) jpeg_forward(&v[x], 8, 1);
  for (int i = 0; i < 64; i++) quantise_one(&v[i], d->by[i], d->part[i]);
  for (int x = 0; x < 8; x++) jpeg_inverse(&v[x], 8, 0);
  for (int y = 0; y < 8; y++) jpeg_inverse(&v[8 * y], 1, 1);
  for (int i = 0; i < 64; i++) {
    ints p = v[i] + 128;
    p = p & ~(p < 0);
    v[i] = (p & ~(p > 255)) | (255 & (p > 255));
  }
  for (int y = 0; y < 8; y++)
    for (int b = 0; b < BLOCKS; b++)
      for (int x = 0; x < 8; x++) plane[y * pitch + 8 * b + x] = (uint8_t)one[(8 * y + x) * BLOCKS + b];
}

static void quantise(uint8_t *plane, int64_t pitch, int64_t rows, const divisors *d) {
  for (int64_t y = 0; y < rows; y += 8)
    for (int64_t x = 0; x < pitch; x += 8 * BLOCKS) blocks(plane + y * pitch + x, pitch, d);
}

size_t tones_jpeg_bytes(int64_t h, int64_t w) {
  jpeg_size s = jpeg_size_of((int32_t)h, (int32_t)w, BLOCKS);
  /* beside the planes: three colours of a row, two rows of their blue and red, and all colours of a row together */
  return (size_t)s.bytes + 10 * ((size_t)s.pitch + 2 * (size_t)s.c_pitch + 64);
}

/* ---- rows of a sample as bytes, of each channel, and back ---- */
AUG_VEC static void apart(uint8_t *restrict a, uint8_t *restrict b, uint8_t *restrict c, const uint8_t *restrict x,
                          int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    a[i] = x[3 * i];
    b[i] = x[3 * i + 1];
    c[i] = x[3 * i + 2];
  }
}
AUG_VEC static void together(uint8_t *restrict y, const uint8_t *restrict a, const uint8_t *restrict b,
                             const uint8_t *restrict c, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    y[3 * i] = a[i];
    y[3 * i + 1] = b[i];
    y[3 * i + 2] = c[i];
  }
}
/* To the nearest, half to even; max: white. */
AUG_VEC static void to_bytes(uint8_t *restrict y, const float *restrict x, int64_t n, float max) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] / max * 255.0f;
    v = PIXEL_IF(v > 0.0f, v, 0.0f);
    v = PIXEL_IF(v < 255.0f, v, 255.0f);
    y[i] = (uint8_t)(int32_t)((v + 12582912.0f) - 12582912.0f);
  }
}
AUG_VEC static void to_floats(float *restrict y, const uint8_t *restrict x, int64_t n, float max) {
  for (int64_t i = 0; i < n; i++) y[i] = point_float(x[i], max);
}

/* rows[c]: of channel c; `all`: room for three of them. */
static void take(const tones_task *t, int64_t sample, int64_t y, uint8_t *const *rows, uint8_t *all) {
  const aug_job *j = t->job;
  size_t bytes = aug_element(j->dtype);
  for (int64_t plane = 0; plane < j->planes; plane++) {
    const void *row = aug_in_row(j, sample, plane, y, bytes);
    int64_t n = (int64_t)j->w * j->pix;
    uint8_t *to = j->pix == 3 ? all : rows[plane];
    if (j->dtype == SP_F32) to_bytes(to, row, n, t->max);
    else if (j->pix == 1) memcpy(to, row, (size_t)n);
    if (j->pix == 3) apart(rows[0], rows[1], rows[2], j->dtype == SP_F32 ? all : row, j->w);
  }
}

static void give(const tones_task *t, int64_t sample, int64_t y, const uint8_t *const *rows, uint8_t *all) {
  const aug_job *j = t->job;
  size_t bytes = aug_element(j->dtype);
  for (int64_t plane = 0; plane < j->planes; plane++) {
    void *row = aug_out_row(j, sample, plane, y, bytes);
    int64_t n = (int64_t)j->w * j->pix;
    const uint8_t *from = j->pix == 3 ? all : rows[plane];
    if (j->pix == 3) together(j->dtype == SP_F32 ? all : row, rows[0], rows[1], rows[2], j->w);
    if (j->dtype == SP_F32) to_floats(row, from, n, t->max);
    else if (j->pix == 1) memcpy(row, from, (size_t)n);
  }
}

/* What lies beyond an edge is like the edge. */
static void widen(uint8_t *row, int64_t from, int64_t to) { memset(row + from, row[from - 1], (size_t)(to - from)); }

AUG_VEC static void colours(uint8_t *restrict y, uint8_t *restrict b, uint8_t *restrict r, const uint8_t *restrict red,
                            const uint8_t *restrict green, const uint8_t *restrict blue, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    y[i] = (uint8_t)jpeg_bright(red[i], green[i], blue[i]);
    b[i] = (uint8_t)jpeg_blue(red[i], green[i], blue[i]);
    r[i] = (uint8_t)jpeg_red(red[i], green[i], blue[i]);
  }
}

AUG_VEC static void halve(uint8_t *restrict to, const uint8_t *restrict a, const uint8_t *restrict b, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] = (uint8_t)jpeg_of_four(a[2 * i] + a[2 * i + 1] + b[2 * i] + b[2 * i + 1], (int32_t)i);
}

/* Twice as wide, from a row and the next one to it: jpeg_smooth of a row. */
AUG_VEC static void double_row(uint8_t *restrict to, const uint8_t *restrict row, const uint8_t *restrict next,
                               int64_t n) {
  for (int64_t i = 1; i < n - 1; i++) {
    int32_t here = 3 * row[i] + next[i];
    to[2 * i] = (uint8_t)((3 * here + 3 * row[i - 1] + next[i - 1] + 8) >> 4);
    to[2 * i + 1] = (uint8_t)((3 * here + 3 * row[i + 1] + next[i + 1] + 7) >> 4);
  }
}

static void smooth(uint8_t *to, const uint8_t *plane, const jpeg_size *s, int32_t y) {
  int32_t cy = y / 2, ny = y & 1 ? cy + 1 : cy - 1;
  ny = ny < 0 ? 0 : ny < s->half_h ? ny : s->half_h - 1;
  if (s->half_w > 2) double_row(to, plane + (int64_t)cy * s->c_pitch, plane + (int64_t)ny * s->c_pitch, s->half_w);
  int32_t n = 2 * s->half_w, rest = s->half_w > 2 ? n - 2 : 2; /* the edges; all of a tiny one */
  for (int32_t x = 0; x < 2; x++) to[x] = (uint8_t)jpeg_smooth(plane, s, x, y);
  for (int32_t x = rest; x < n; x++) to[x] = (uint8_t)jpeg_smooth(plane, s, x, y);
}

AUG_VEC static void back(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue,
                         const uint8_t *restrict y, const uint8_t *restrict b, const uint8_t *restrict r, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    red[i] = (uint8_t)jpeg_r(y[i], r[i]);
    green[i] = (uint8_t)jpeg_g(y[i], b[i], r[i]);
    blue[i] = (uint8_t)jpeg_b(y[i], b[i]);
  }
}

void tones_jpeg(const tones_task *t, int64_t sample, uint8_t *work) {
  const aug_job *j = t->job;
  jpeg_size s = jpeg_size_of(j->h, j->w, BLOCKS);
  int64_t line = s.pitch + 2 * s.c_pitch + 64;
  uint8_t *bright = work, *blue = bright + (int64_t)s.pitch * s.rows, *red = blue + (int64_t)s.c_pitch * s.c_rows;
  uint8_t *row[8];
  for (int i = 0; i < 8; i++) row[i] = work + s.bytes + i * line; /* the last one has three lines */
  int three = j->planes * j->pix == 3;
  for (int32_t y = 0; y < j->h; y++) {
    uint8_t *to = bright + (int64_t)y * s.pitch;
    if (!three) {
      take(t, sample, y, &to, row[7]);
    } else {
      int odd = y & 1;
      take(t, sample, y, row, row[7]);
      colours(to, row[3 + odd], row[5 + odd], row[0], row[1], row[2], j->w);
      widen(row[3 + odd], j->w, 2 * s.c_pitch);
      widen(row[5 + odd], j->w, 2 * s.c_pitch);
      if (odd || y + 1 == j->h) { /* the last row of an odd number stands for two */
        halve(blue + (int64_t)(y / 2) * s.c_pitch, row[3], row[odd ? 4 : 3], s.c_pitch);
        halve(red + (int64_t)(y / 2) * s.c_pitch, row[5], row[odd ? 6 : 5], s.c_pitch);
      }
    }
    widen(to, j->w, s.pitch);
  }
  for (int32_t y = j->h; y < s.rows; y++)
    memcpy(bright + (int64_t)y * s.pitch, bright + (int64_t)(j->h - 1) * s.pitch, (size_t)s.pitch);
  divisors d;
  divisors_of(&d, 0, (int)t->step.by);
  quantise(bright, s.pitch, s.rows, &d);
  if (three) {
    for (int32_t y = s.half_h; y < s.c_rows; y++) {
      memcpy(blue + (int64_t)y * s.c_pitch, blue + (int64_t)(s.half_h - 1) * s.c_pitch, (size_t)s.c_pitch);
      memcpy(red + (int64_t)y * s.c_pitch, red + (int64_t)(s.half_h - 1) * s.c_pitch, (size_t)s.c_pitch);
    }
    divisors_of(&d, 1, (int)t->step.by);
    quantise(blue, s.c_pitch, s.c_rows, &d);
    quantise(red, s.c_pitch, s.c_rows, &d);
  }
  for (int32_t y = 0; y < j->h; y++) {
    const uint8_t *from = bright + (int64_t)y * s.pitch;
    if (!three) {
      give(t, sample, y, &from, row[7]);
      continue;
    }
    smooth(row[3], blue, &s, y);
    smooth(row[4], red, &s, y);
    back(row[0], row[1], row[2], from, row[3], row[4], j->w);
    give(t, sample, y, (const uint8_t *const *)row, row[7]);
  }
}
