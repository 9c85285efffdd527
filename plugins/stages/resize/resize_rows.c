/* SPDX-License-Identifier: MIT
 * resize_rows.c - tables of weights, and the loops over the elements of a row. */
#include <stdlib.h>
#include <string.h>

#include "resize_cpu.h"

void resize_table_free(resize_table *t) {
  free(t->first);
  *t = (resize_table){.first = NULL};
}

/* How many outputs are begun and not done at most, as the inputs go by. */
static int32_t live_rows(const resize_table *t) {
  int32_t most = 2;
  for (int32_t i = 0, end = 0; i < t->out; i++) {
    while (end < t->out && t->first[end] < t->first[i] + t->n[i]) end++;
    if (end - i > most) most = end - i;
  }
  return most;
}

/* At least 3 where it is cubic: the loops for two inputs are for other weights. */
static size_t most_inputs(const resize_axis *a) {
  if (a->how != RESIZE_CUBIC) return 2 * (size_t)ceilf(a->support) + 2;
  int32_t most = cubic_most(&a->cubic);
  return most < 3 ? 3 : (size_t)most;
}

size_t resize_table_bytes(const resize_axis *a) {
  size_t kinds = a->how == RESIZE_CUBIC ? 2 : 1;
  return (size_t)a->out * (3 * sizeof(int32_t) + most_inputs(a) * kinds * sizeof(float));
}

int resize_table_make(resize_table *t, resize_axis a) {
  resize_table_free(t);
  void *memory = malloc(resize_table_bytes(&a));
  if (!memory) return 1;
  resize_table_in(t, &a, memory);
  return 0;
}

/* The weights of output i: `n` from `lo` on. */
static void mean_weights(const resize_axis *a, int32_t i, size_t most, float *w, int32_t *from, int32_t *count) {
  float centre = resize_centre(a, i);
  int32_t lo, n = 2;
  if (a->support == 1.0f) {
    lo = resize_two(a, i, &w[1]);
    w[0] = 1.0f - w[1];
  } else {
    resize_span(a, centre, &lo, &n);
    if ((size_t)n > most) n = (int32_t)most;
    float total = resize_total(a, centre, lo, n);
    for (int32_t k = 0; k < n; k++) w[k] = resize_tap(a, centre, lo + k) / total;
  }
  while (n > 1 && w[n - 1] == 0.0f) n--; /* weights of 0 cost time and let infinities through */
  int32_t skip = 0;
  while (skip < n - 1 && w[skip] == 0.0f) skip++;
  memmove(w, w + skip, (size_t)(n - skip) * sizeof *w);
  *from = lo + skip;
  *count = n - skip;
}

static void cubic_weights(const cubic_axis *a, int32_t i, float *w, int32_t *whole, int32_t *from, int32_t *count) {
  double centre = cubic_centre(a, i), total = cubic_span(a, centre, from, count);
  for (int32_t k = 0; k < *count; k++) {
    double v = cubic_tap(a, centre, *from + k) / total;
    w[k] = (float)v;
    whole[k] = cubic_whole(v);
  }
}

void resize_table_in(resize_table *t, const resize_axis *a, void *memory) {
  size_t out = (size_t)a->out, most = most_inputs(a);
  t->first = memory;
  t->n = t->first + out;
  t->near = t->n + out;
  t->w = (float *)(void *)(t->near + out);
  t->whole = a->how == RESIZE_CUBIC ? (int32_t *)(void *)(t->w + out * most) : NULL;
  t->out = a->out;
  t->most = t->whole ? 3 : 0;
  t->active = a->in != a->out;
  for (int32_t i = 0; i < a->out; i++) {
    size_t at = (size_t)i * most;
    if (t->whole) cubic_weights(&a->cubic, i, t->w + at, t->whole + at, &t->first[i], &t->n[i]);
    else mean_weights(a, i, most, t->w + at, &t->first[i], &t->n[i]);
    t->near[i] = resize_nearest(a, i);
    if (t->n[i] > t->most) t->most = t->n[i];
  }
  /* packed, so that weights are read one after another */
  for (size_t i = 1; i < out; i++) {
    size_t to = i * (size_t)t->most, from = i * most, bytes = (size_t)t->n[i] * sizeof *t->w;
    memmove(t->w + to, t->w + from, bytes);
    if (t->whole) memmove(t->whole + to, t->whole + from, bytes);
  }
  t->live = t->most > 2 && !t->whole ? live_rows(t) : 2;
}

/* `C` is a constant where the number of channels is a usual one, and `pix` then equal to it. */
#define ALONG_X(name, type)                                                                             \
  static inline __attribute__((always_inline)) void name##_of(const resize_table *t, float *restrict y, \
                                                              const type *restrict x, int64_t C) {      \
    if (t->most <= 2) {                                                                                 \
      for (int32_t i = 0; i < t->out; i++) {                                                            \
        const type *a = x + t->first[i] * C, *b = t->n[i] > 1 ? a + C : a;                              \
        float u = t->w[i * t->most], v = t->n[i] > 1 ? t->w[i * t->most + 1] : 0.0f;                    \
        for (int64_t c = 0; c < C; c++) y[i * C + c] = (float)a[c] * u + (float)b[c] * v;               \
      }                                                                                                 \
      return;                                                                                           \
    }                                                                                                   \
    for (int32_t i = 0; i < t->out; i++) {                                                              \
      const type *a = x + t->first[i] * C;                                                              \
      const float *w = t->w + (int64_t)i * t->most;                                                     \
      if (C <= 4) {                                                                                     \
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                        \
        for (int64_t c = 0; c < C; c++) sum[c] = (float)a[c] * w[0];                                    \
        for (int32_t k = 1; k < t->n[i]; k++)                                                           \
          for (int64_t c = 0; c < C; c++) sum[c] += (float)a[k * C + c] * w[k];                         \
        for (int64_t c = 0; c < C; c++) y[i * C + c] = sum[c];                                          \
        continue;                                                                                       \
      }                                                                                                 \
      float *out = y + i * C;                                                                           \
      for (int64_t c = 0; c < C; c++) out[c] = (float)a[c] * w[0];                                      \
      for (int32_t k = 1; k < t->n[i]; k++)                                                             \
        for (int64_t c = 0; c < C; c++) out[c] += (float)a[k * C + c] * w[k];                           \
    }                                                                                                   \
  }                                                                                                     \
  static void name(const resize_table *t, float *y, const type *x, int64_t pix) {                       \
    if (pix == 1) name##_of(t, y, x, 1);                                                                \
    else if (pix == 3) name##_of(t, y, x, 3);                                                           \
    else if (pix == 4) name##_of(t, y, x, 4);                                                           \
    else name##_of(t, y, x, pix);                                                                       \
  }
ALONG_X(bytes_along_x, uint8_t)
ALONG_X(floats_along_x, float)

void resize_along_x(const resize_table *t, float *y, const void *x, int dtype, int64_t pix) {
  if (dtype == SP_U8) bytes_along_x(t, y, x, pix);
  else floats_along_x(t, y, x, pix);
}

static void turn_bytes(float *restrict to, const uint8_t *restrict x, int64_t n, const int64_t *at) {
  for (int64_t e = 0; e < n; e++)
    for (int r = 0; r < RESIZE_GROUP; r++) to[e * RESIZE_GROUP + r] = (float)x[at[r] + e];
}
static void turn_floats(float *restrict to, const float *restrict x, int64_t n, const int64_t *at) {
  for (int64_t e = 0; e < n; e++)
    for (int r = 0; r < RESIZE_GROUP; r++) to[e * RESIZE_GROUP + r] = x[at[r] + e];
}

void resize_group_along_x(const resize_table *t, float *restrict y, size_t line, const void *x, int64_t n,
                          int64_t pitch, int rows, int dtype, int64_t pix, float *restrict turned) {
  int64_t at[RESIZE_GROUP], step = pix * RESIZE_GROUP;
  for (int r = 0; r < RESIZE_GROUP; r++) at[r] = (r < rows ? r : rows - 1) * pitch;
  if (dtype == SP_U8) turn_bytes(turned, x, n, at);
  else turn_floats(turned, x, n, at);
  for (int32_t i = 0; i < t->out; i++) {
    const float *w = t->w + (int64_t)i * t->most;
    for (int64_t c = 0; c < pix; c++) {
      const float *a = turned + t->first[i] * step + c * RESIZE_GROUP;
      float sum[RESIZE_GROUP];
      for (int r = 0; r < RESIZE_GROUP; r++) sum[r] = a[r] * w[0];
      for (int32_t k = 1; k < t->n[i]; k++) {
        a += step;
        for (int r = 0; r < RESIZE_GROUP; r++) sum[r] += a[r] * w[k];
      }
      for (int r = 0; r < rows; r++) y[(size_t)r * line + (size_t)(i * pix + c)] = sum[r];
    }
  }
}

#define PICK(type)                                                 \
  {                                                                \
    const type *from = x;                                          \
    type *to = y;                                                  \
    for (int32_t i = 0; i < t->out; i++) to[i] = from[t->near[i]]; \
  }
void resize_pick(const resize_table *t, void *restrict y, const void *restrict x, size_t bytes) {
  if (bytes == 1) PICK(uint8_t)
  else if (bytes == 4) PICK(int32_t)
  else PICK(int64_t)
}

/* To the nearest, half to even: rintf that is vectorised on every processor. Behind the sum no bits are left for what
 * is smaller than 1. */
#define RINT(v) ((v) + 12582912.0f - 12582912.0f)
#define CLAMP(v) ((v) < 0.0f ? 0.0f : (v) > 255.0f ? 255.0f : (v))

void resize_widen(float *restrict y, const uint8_t *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
}
void resize_to_bytes(uint8_t *restrict y, const float *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float v = CLAMP(x[i]);
    y[i] = (uint8_t)(int32_t)RINT(v);
  }
}
void resize_mix(float *restrict y, const float *a, float wa, const float *b, float wb, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = a[i] * wa + b[i] * wb;
}
void resize_mix_bytes(uint8_t *restrict y, const float *a, float wa, const float *b, float wb, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float v = a[i] * wa + b[i] * wb;
    v = CLAMP(v);
    y[i] = (uint8_t)(int32_t)RINT(v);
  }
}
void resize_set(float *restrict y, const float *restrict x, float w, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = x[i] * w;
}
void resize_add(float *restrict y, const float *restrict x, float w, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += x[i] * w;
}
