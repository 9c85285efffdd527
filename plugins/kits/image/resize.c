/* SPDX-License-Identifier: MIT
 * resize.c - bilinear resizing with antialiasing, and nearest, to the bit as torchvision computes them in float. */
#include <math.h>
#include <string.h>

#include <spcore/abi.h>

#include "image.h"

/* Weights of one axis: output i takes n[i] inputs from first[i] on. */
typedef struct axis {
  int *first, *n;
  float *w;
  int most; /* stride of w */
} axis;

static int axis_make(im_buf *mem, int in, int out, axis *a) {
  float scale = (float)in / (float)out, support = scale >= 1.0f ? scale : 1.0f, inv = 1.0f / support;
  a->most = (int)ceilf(support) * 2 + 1;
  size_t ints = (size_t)out * 2 * sizeof(int), all = ints + (size_t)out * (size_t)a->most * sizeof(float);
  a->first = im_reserve(mem, all);
  if (!a->first) return SP_E_NOMEM;
  a->n = a->first + out;
  a->w = (float *)(void *)(a->n + out);
  for (int i = 0; i < out; i++) {
    float centre = scale * ((float)i + 0.5f), total = 0.0f, *w = a->w + (size_t)i * (size_t)a->most;
    int lo = (int)(centre - support + 0.5f), hi = (int)(centre + support + 0.5f);
    if (lo < 0) lo = 0;
    if (lo > in - 1) lo = in - 1;
    if (hi > in) hi = in;
    int n = hi - lo;
    if (n > a->most) n = a->most;
    if (n < 1) n = 1;
    for (int j = 0; j < n; j++) {
      float x = fabsf(((float)(j + lo) - centre + 0.5f) * inv);
      w[j] = x < 1.0f ? 1.0f - x : 0.0f;
      total += w[j];
    }
    for (int j = 0; j < n && total != 0.0f; j++) w[j] /= total;
    while (n > 1 && w[n - 1] == 0.0f) n--;
    a->first[i] = lo;
    a->n[i] = n;
  }
  return SP_OK;
}

#define AT_ONCE 4 /* rows whose sums do not wait for each other */
typedef float pixel __attribute__((vector_size(16)));

static pixel load(const float *v) {
  pixel p;
  memcpy(&p, v, sizeof p);
  return p;
}

/* AT_ONCE rows of floats, `from` floats apart, to rows `to` apart. Three lanes are the colours, the fourth is of no use: it reads
 * one float behind the row, and what it writes the next pixel replaces. */
static void scale_rows(const axis *a, const float *src, size_t from, float *dst, size_t to, int dw) {
  for (int i = 0; i < dw; i++) {
    const float *s = src + (size_t)a->first[i] * 3, *w = a->w + (size_t)i * (size_t)a->most;
    pixel sum[AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++) sum[k] = load(s + (size_t)k * from) * w[0];
    for (int j = 1; j < a->n[i]; j++)
      for (int k = 0; k < AT_ONCE; k++) sum[k] += load(s + (size_t)k * from + 3 * j) * w[j];
    for (int k = 0; k < AT_ONCE; k++) memcpy(dst + (size_t)k * to + (size_t)i * 3, &sum[k], sizeof sum[k]);
  }
}

/* Row r of the source, scaled along x, to the output rows it belongs to. */
static void add_row(const axis *y, int r, int first, int dh, const float *row, size_t line, float *acc) {
  for (int i = first; i < dh && y->first[i] <= r; i++) {
    int j = r - y->first[i];
    if (j >= y->n[i]) continue;
    float w = y->w[(size_t)i * (size_t)y->most + (size_t)j], *o = acc + (size_t)i * line;
    if (j == 0)
      for (size_t k = 0; k < line; k++) o[k] = row[k] * w;
    else
      for (size_t k = 0; k < line; k++) o[k] += row[k] * w;
  }
}

/* Each source row is scaled along x once and added to the output rows it belongs to, so that memory is bounded by the
 * output and not by the height of the source; the sums are in the order of the source rows. */
int im_resize(im_scaler *s, const uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  size_t line = (size_t)dw * 3, count = line * (size_t)dh, from = (size_t)sw * 3 + 1, to = line + 1;
  if (sw == dw && sh == dh) {
    memcpy(dst, src, count);
    return SP_OK;
  }
  axis x, y;
  if (axis_make(&s->wx, sw, dw, &x) || axis_make(&s->wy, sh, dh, &y)) return SP_E_NOMEM;
  float *wide = im_reserve(&s->wide, AT_ONCE * from * sizeof *wide);
  float *rows = im_reserve(&s->row, AT_ONCE * to * sizeof *rows), *acc = im_reserve(&s->acc, count * sizeof *acc);
  if (!wide || !rows || !acc) return SP_E_NOMEM;
  memset(wide, 0, AT_ONCE * from * sizeof *wide);
  for (int r = 0, done = 0; r < sh; r += AT_ONCE) {
    int n = sh - r < AT_ONCE ? sh - r : AT_ONCE;
    for (int k = 0; k < n; k++)
      for (size_t i = 0; i + 1 < from; i++) wide[(size_t)k * from + i] = src[(size_t)(r + k) * (from - 1) + i];
    scale_rows(&x, wide, from, rows, to, dw);
    for (int k = 0; k < n; k++) {
      while (done < dh && y.first[done] + y.n[done] <= r + k) done++;
      add_row(&y, r + k, done, dh, rows + (size_t)k * to, line, acc);
    }
  }
  for (size_t k = 0; k < count; k++) {
    float v = rintf(acc[k]);
    dst[k] = (uint8_t)(v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v);
  }
  return SP_OK;
}

void im_nearest(const uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  float fx = (float)sw / (float)dw, fy = (float)sh / (float)dh;
  for (int i = 0; i < dh; i++) {
    int y = (int)floorf((float)i * fy);
    const uint8_t *row = src + (size_t)(y < sh ? y : sh - 1) * (size_t)sw;
    for (int j = 0; j < dw; j++) {
      int x = (int)floorf((float)j * fx);
      *dst++ = row[x < sw ? x : sw - 1];
    }
  }
}

void im_scaler_free(im_scaler *s) {
  im_buf_free(&s->acc);
  im_buf_free(&s->row);
  im_buf_free(&s->wide);
  im_buf_free(&s->wx);
  im_buf_free(&s->wy);
}
