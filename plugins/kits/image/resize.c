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

static void scale_row(const axis *a, const uint8_t *src, float *dst, int dw) {
  for (int i = 0; i < dw; i++) {
    const uint8_t *s = src + (size_t)a->first[i] * 3;
    const float *w = a->w + (size_t)i * (size_t)a->most;
    float r = (float)s[0] * w[0], g = (float)s[1] * w[0], b = (float)s[2] * w[0];
    for (int j = 1; j < a->n[i]; j++) {
      s += 3;
      r += (float)s[0] * w[j];
      g += (float)s[1] * w[j];
      b += (float)s[2] * w[j];
    }
    dst[i * 3] = r;
    dst[i * 3 + 1] = g;
    dst[i * 3 + 2] = b;
  }
}

/* Each source row is scaled along x once and added to the output rows it belongs to, so that memory is bounded by the
 * output and not by the height of the source; the sums are in the order of the source rows. */
int im_resize(im_scaler *s, const uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  size_t line = (size_t)dw * 3, count = line * (size_t)dh;
  if (sw == dw && sh == dh) {
    memcpy(dst, src, count);
    return SP_OK;
  }
  axis x, y;
  if (axis_make(&s->wx, sw, dw, &x) || axis_make(&s->wy, sh, dh, &y)) return SP_E_NOMEM;
  float *row = im_reserve(&s->row, line * sizeof *row), *acc = im_reserve(&s->acc, count * sizeof *acc);
  if (!row || !acc) return SP_E_NOMEM;
  for (int r = 0, done = 0; r < sh && done < dh; r++) {
    while (done < dh && y.first[done] + y.n[done] <= r) done++;
    if (done == dh || y.first[done] > r) continue;
    scale_row(&x, src + (size_t)r * (size_t)sw * 3, row, dw);
    for (int i = done; i < dh && y.first[i] <= r; i++) {
      int j = r - y.first[i];
      if (j >= y.n[i]) continue;
      float w = y.w[(size_t)i * (size_t)y.most + (size_t)j], *o = acc + (size_t)i * line;
      if (j == 0)
        for (size_t k = 0; k < line; k++) o[k] = row[k] * w;
      else
        for (size_t k = 0; k < line; k++) o[k] += row[k] * w;
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
  im_buf_free(&s->wx);
  im_buf_free(&s->wy);
}
