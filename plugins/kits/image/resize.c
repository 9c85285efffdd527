/* SPDX-License-Identifier: MIT
 * resize.c - bilinear resizing with antialiasing, and nearest, to the bit as torchvision computes them in float;
 * bicubic. */
#include <math.h>
#include <string.h>

#include <spcore/abi.h>

#include "../cubic/cubic.h"
#include "image.h"

/* Weights of one axis: output i takes n[i] inputs from first[i] on. */
typedef struct axis {
  int *first, *n;
  float *w;
  int most; /* stride of w */
} axis;

/* Room for `out` outputs with up to `most` weights each. */
static int axis_reserve(im_buf *mem, int out, int most, axis *a) {
  size_t ints = (size_t)out * 2 * sizeof(int), all = ints + (size_t)out * (size_t)most * sizeof(float);
  a->most = most;
  a->first = im_reserve(mem, all);
  if (!a->first) return SP_E_NOMEM;
  a->n = a->first + out;
  a->w = (float *)(void *)(a->n + out);
  return SP_OK;
}

/* Of the outputs from .. from + out - 1 of all_out. */
static int axis_make(im_buf *mem, int in, int64_t all_out, int64_t from, int out, axis *a) {
  float scale = (float)in / (float)all_out, support = scale >= 1.0f ? scale : 1.0f, inv = 1.0f / support;
  if (axis_reserve(mem, out, (int)ceilf(support) * 2 + 1, a)) return SP_E_NOMEM;
  for (int i = 0; i < out; i++) {
    float centre = scale * ((float)(from + i) + 0.5f), total = 0.0f, *w = a->w + (size_t)i * (size_t)a->most;
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

/* AT_ONCE rows of floats, `from` floats apart, to rows `to` apart. Three lanes are the colours, the fourth is of no
 * use: it reads one float behind the row, and what it writes the next pixel replaces. */
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

static void to_bytes(const float *sums, size_t n, uint8_t *to) {
  for (size_t k = 0; k < n; k++) {
    float v = rintf(sums[k]);
    to[k] = (uint8_t)(v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v);
  }
}

/* Each source row is scaled along x once and added to the output rows it belongs to, so that memory is bounded by the
 * output and not by the height of the source; the sums are in the order of the source rows. */
static int bilinear(im_scaler *s, const uint8_t *src, const im_geometry *g, uint8_t *dst) {
  int sw = g->sw, sh = g->sh, dw = g->dw, dh = g->dh;
  size_t line = (size_t)dw * 3, count = line * (size_t)dh, from = (size_t)sw * 3 + 1, to = line + 1;
  axis x, y;
  if (axis_make(&s->wx, sw, g->rw, g->ox, dw, &x) || axis_make(&s->wy, sh, g->rh, g->oy, dh, &y)) return SP_E_NOMEM;
  float *wide = im_reserve(&s->wide, AT_ONCE * from * sizeof *wide);
  float *rows = im_reserve(&s->row, AT_ONCE * to * sizeof *rows), *acc = im_reserve(&s->acc, count * sizeof *acc);
  if (!wide || !rows || !acc) return SP_E_NOMEM;
  memset(wide, 0, AT_ONCE * from * sizeof *wide);
  int end = y.first[dh - 1] + y.n[dh - 1];
  for (int r = y.first[0], done = 0; r < end; r += AT_ONCE) {
    int n = end - r < AT_ONCE ? end - r : AT_ONCE;
    for (int k = 0; k < n; k++)
      for (size_t i = 0; i + 1 < from; i++) wide[(size_t)k * from + i] = src[(size_t)(r + k) * (from - 1) + i];
    scale_rows(&x, wide, from, rows, to, dw);
    for (int k = 0; k < n; k++) {
      while (done < dh && y.first[done] + y.n[done] <= r + k) done++;
      add_row(&y, r + k, done, dh, rows + (size_t)k * to, line, acc);
    }
  }
  to_bytes(acc, count, dst);
  return SP_OK;
}

static int bicubic(im_scaler *s, const uint8_t *src, const im_geometry *g, int channels, uint8_t *dst) {
  cubic_axis x = cubic_axis_of(g->sw, g->rw), y = cubic_axis_of(g->sh, g->rh);
  void *wx = im_reserve(&s->wx, cubic_table_bytes(&x, g->dw)), *wy = im_reserve(&s->wy, cubic_table_bytes(&y, g->dh));
  void *memory = im_reserve(&s->acc, cubic_bytes_memory(g->sw, g->dw, channels, cubic_most(&y)));
  cubic_table tx, ty;
  if (!wx || !wy || !memory) return SP_E_NOMEM;
  cubic_table_in(&tx, &x, g->ox, g->dw, wx);
  cubic_table_in(&ty, &y, g->oy, g->dh, wy);
  cubic_bytes(&(cubic_job){.x = &tx,
                           .y = &ty,
                           .in = src,
                           .out = dst,
                           .in_pitch = (size_t)g->sw * (size_t)channels,
                           .out_pitch = (size_t)g->dw * (size_t)channels,
                           .pix = channels,
                           .in_w = g->sw,
                           .to = g->dh},
              memory);
  return SP_OK;
}

/* ---- any number of channels ---- */
/* Weights of bicubic as floats. */
static int cubic_axis_make(im_buf *mem, int in, int64_t all_out, int64_t from, int out, axis *a) {
  cubic_axis c = cubic_axis_of(in, all_out);
  if (axis_reserve(mem, out, cubic_most(&c), a)) return SP_E_NOMEM;
  for (int i = 0; i < out; i++) {
    double centre = cubic_centre(&c, from + i), total = cubic_span(&c, centre, &a->first[i], &a->n[i]);
    for (int j = 0; j < a->n[i]; j++)
      a->w[(size_t)i * (size_t)a->most + (size_t)j] = (float)(cubic_tap(&c, centre, a->first[i] + j) / total);
  }
  return SP_OK;
}

static void scale_row(const axis *a, const float *src, size_t channels, float *dst, int dw) {
  for (int i = 0; i < dw; i++, dst += channels) {
    const float *s = src + (size_t)a->first[i] * channels, *w = a->w + (size_t)i * (size_t)a->most;
    for (size_t c = 0; c < channels; c++) dst[c] = s[c] * w[0];
    for (int j = 1; j < a->n[i]; j++)
      for (size_t c = 0; c < channels; c++) dst[c] += s[(size_t)j * channels + c] * w[j];
  }
}

/* A row of either source: bytes as floats in `wide`. */
static const float *row_of(const float *floats, const uint8_t *bytes, size_t row, size_t n, float *wide) {
  if (floats) return floats + row * n;
  for (size_t i = 0; i < n; i++) wide[i] = bytes[row * n + i];
  return wide;
}

/* One of floats and bytes is NULL. As bilinear() does it; the sums are in `to`. */
static int scale_any(im_scaler *s, const float *floats, const uint8_t *bytes, const im_geometry *g, int channels,
                     int interpolation, float *to) {
  int sw = g->sw, dw = g->dw, dh = g->dh;
  size_t line = (size_t)dw * (size_t)channels, from = (size_t)sw * (size_t)channels;
  axis x, y;
  int (*make)(im_buf *, int, int64_t, int64_t, int, axis *) = interpolation == IM_BICUBIC ? cubic_axis_make : axis_make;
  if (make(&s->wx, sw, g->rw, g->ox, dw, &x) || make(&s->wy, g->sh, g->rh, g->oy, dh, &y)) return SP_E_NOMEM;
  float *wide = im_reserve(&s->wide, from * sizeof *wide), *row = im_reserve(&s->row, line * sizeof *row);
  if (!wide || !row) return SP_E_NOMEM;
  int end = y.first[dh - 1] + y.n[dh - 1];
  for (int r = y.first[0], done = 0; r < end; r++) {
    scale_row(&x, row_of(floats, bytes, (size_t)r, from, wide), (size_t)channels, row, dw);
    while (done < dh && y.first[done] + y.n[done] <= r) done++;
    add_row(&y, r, done, dh, row, line, to);
  }
  return SP_OK;
}

static int is_same(const im_geometry *g) {
  return g->sw == g->rw && g->sh == g->rh && g->dw == g->sw && g->dh == g->sh;
}

int im_resize_floats(im_scaler *s, const float *src, const im_geometry *g, int channels, int interpolation,
                     float *dst) {
  if (!is_same(g)) return scale_any(s, src, NULL, g, channels, interpolation, dst);
  memcpy(dst, src, (size_t)g->dw * (size_t)g->dh * (size_t)channels * sizeof *dst);
  return SP_OK;
}

int im_resize_bytes(im_scaler *s, const uint8_t *src, const im_geometry *g, int channels, int interpolation,
                    uint8_t *dst) {
  size_t n = (size_t)g->dw * (size_t)g->dh * (size_t)channels;
  if (channels == 3) return im_resize(s, src, g, interpolation, dst);
  if (is_same(g)) {
    memcpy(dst, src, n);
    return SP_OK;
  }
  if (interpolation == IM_BICUBIC) return bicubic(s, src, g, channels, dst);
  float *sums = im_reserve(&s->acc, n * sizeof *sums);
  if (!sums || scale_any(s, NULL, src, g, channels, interpolation, sums)) return SP_E_NOMEM;
  to_bytes(sums, n, dst);
  return SP_OK;
}

int im_resize(im_scaler *s, const uint8_t *src, const im_geometry *g, int interpolation, uint8_t *dst) {
  if (is_same(g)) {
    memcpy(dst, src, (size_t)g->dw * 3 * (size_t)g->dh);
    return SP_OK;
  }
  return interpolation == IM_BICUBIC ? bicubic(s, src, g, 3, dst) : bilinear(s, src, g, dst);
}

/* The input that output i shows; in float as torchvision has it. */
static int nearest_of(int64_t i, float scale, int in) {
  int64_t x = (int64_t)floorf((float)i * scale);
  return x < in ? (int)x : in - 1;
}

#define NEAREST(name, type)                                                             \
  void name(const type *src, const im_geometry *g, type *dst) {                         \
    float fx = (float)g->sw / (float)g->rw, fy = (float)g->sh / (float)g->rh;           \
    for (int i = 0; i < g->dh; i++) {                                                   \
      const type *row = src + (size_t)nearest_of(g->oy + i, fy, g->sh) * (size_t)g->sw; \
      for (int j = 0; j < g->dw; j++) *dst++ = row[nearest_of(g->ox + j, fx, g->sw)];   \
    }                                                                                   \
  }
NEAREST(im_nearest, uint8_t)
NEAREST(im_nearest_floats, float)

void im_scaler_free(im_scaler *s) {
  im_buf_free(&s->acc);
  im_buf_free(&s->row);
  im_buf_free(&s->wide);
  im_buf_free(&s->wx);
  im_buf_free(&s->wy);
}
