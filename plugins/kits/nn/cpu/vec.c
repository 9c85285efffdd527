/* SPDX-License-Identifier: MIT
 * vec.c - the vector loops of the CPU layers: plain loops that the compiler vectorises. */
#include "vec.h"

#include <string.h>

static inline float relu_of(float v) { return v < 0 ? 0 : v; } /* NaN stays: what is broken must not look well */

NN_VEC void nn_bias_relu(float *y, const float *bias, const float *plus, int64_t rows, int64_t c, int64_t period,
                         int64_t first, int64_t ld, int relu) {
  for (int64_t r = 0; r < rows; r++) {
    float *row = y + r * ld;
    for (int64_t j = 0; j < c;) {
      int64_t at = (first + j) % period, n = period - at < c - j ? period - at : c - j;
      float *d = row + j;
      const float *more = plus ? plus + r * ld + j : NULL;
      if (more && bias && relu)
        for (int64_t i = 0; i < n; i++) d[i] = relu_of(d[i] + bias[at + i] + more[i]);
      else if (more && bias)
        for (int64_t i = 0; i < n; i++) d[i] += bias[at + i] + more[i];
      else if (more)
        for (int64_t i = 0; i < n; i++) d[i] = relu ? relu_of(d[i] + more[i]) : d[i] + more[i];
      else if (bias && relu)
        for (int64_t i = 0; i < n; i++) d[i] = relu_of(d[i] + bias[at + i]);
      else if (bias)
        for (int64_t i = 0; i < n; i++) d[i] += bias[at + i];
      else if (relu)
        for (int64_t i = 0; i < n; i++) d[i] = relu_of(d[i]);
      j += n;
    }
  }
}

NN_VEC void nn_relu(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = relu_of(x[i]);
}

NN_VEC void nn_mask(float *d, const float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) d[i] = y[i] > 0 ? d[i] : 0;
}

NN_VEC void nn_mask_to(float *d, const float *g, const float *y, int64_t n, int acc) {
  if (acc)
    for (int64_t i = 0; i < n; i++) d[i] += y[i] > 0 ? g[i] : 0;
  else
    for (int64_t i = 0; i < n; i++) d[i] = y[i] > 0 ? g[i] : 0;
}

NN_VEC void nn_axpy(float *d, const float *s, float alpha, float beta, int64_t n) {
  if (beta == 0)
    for (int64_t i = 0; i < n; i++) d[i] = alpha * s[i];
  else
    for (int64_t i = 0; i < n; i++) d[i] = beta * d[i] + alpha * s[i];
}

void nn_give(float *d, const float *g, const float *mask, int64_t n, int acc) {
  if (mask) nn_mask_to(d, g, mask, n, acc);
  else if (acc) nn_axpy(d, g, 1, 1, n);
  else memcpy(d, g, (size_t)n * sizeof *d);
}

NN_VEC void nn_add(float *d, const float *a, const float *b, int64_t n, int relu) {
  if (relu)
    for (int64_t i = 0; i < n; i++) d[i] = relu_of(a[i] + b[i]);
  else
    for (int64_t i = 0; i < n; i++) d[i] = a[i] + b[i];
}

NN_VEC void nn_colsum(float *sum, const float *x, int64_t rows, int64_t c) {
  for (int64_t j0 = 0; j0 < c; j0 += 16) {
    int64_t n = c - j0 < 16 ? c - j0 : 16;
    float acc[16] = {0};
    if (n == 16)
      for (int64_t r = 0; r < rows; r++)
        for (int j = 0; j < 16; j++) acc[j] += x[r * c + j0 + j];
    else
      for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) acc[j] += x[r * c + j0 + j];
    memcpy(sum + j0, acc, (size_t)n * sizeof *sum);
  }
}

NN_VEC void nn_stats(double *sum, double *sq, const float *x, int64_t rows, int64_t c) {
  for (int64_t j = 0; j < c; j++) sum[j] = sq[j] = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < c; j++) {
      double v = x[r * c + j];
      sum[j] += v;
      sq[j] += v * v;
    }
}

NN_VEC void nn_stats_back(double *sum, double *dot, const float *dy, const float *x, const float *mean,
                          const float *invstd, int64_t rows, int64_t c) {
  for (int64_t j = 0; j < c; j++) sum[j] = dot[j] = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < c; j++) {
      double g = dy[r * c + j];
      sum[j] += g;
      dot[j] += g * ((x[r * c + j] - mean[j]) * invstd[j]);
    }
}

NN_VEC void nn_scale_shift(float *y, const float *x, const float *scale, const float *shift, int64_t rows, int64_t c,
                           int relu) {
  for (int64_t r = 0; r < rows; r++) {
    float *d = y + r * c;
    const float *s = x + r * c;
    if (relu)
      for (int64_t j = 0; j < c; j++) d[j] = relu_of(s[j] * scale[j] + shift[j]);
    else
      for (int64_t j = 0; j < c; j++) d[j] = s[j] * scale[j] + shift[j];
  }
}

NN_VEC void nn_norm_back(float *dx, const float *dy, const float *x, const float *a, const float *b, const float *e,
                         int64_t rows, int64_t c, int acc) {
  for (int64_t r = 0; r < rows; r++) {
    float *d = dx + r * c;
    const float *g = dy + r * c, *s = x + r * c;
    if (acc)
      for (int64_t j = 0; j < c; j++) d[j] += a[j] * g[j] + b[j] * s[j] + e[j];
    else
      for (int64_t j = 0; j < c; j++) d[j] = a[j] * g[j] + b[j] * s[j] + e[j];
  }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
nn_par nn_par_of(sp_ctx *ctx) {
  nn_par p = {ctx, ctx->host->get_extension(ctx, SP_EXT_PARALLEL), 1};
  if (p.ext) p.threads = p.ext->threads(ctx);
  return p;
}

int nn_run(const nn_par *p, int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg) {
  int st = 0;
  if (p->ext && p->threads > 1 && n > 1) return p->ext->run(p->ctx, 0, n, fn, arg);
  for (int64_t i = 0; i < n && !st; i++) st = fn(arg, i, 0);
  return st;
}

void nn_piece(int64_t n, int64_t unit, int64_t pieces, int64_t i, int64_t *b, int64_t *e) {
  int64_t units = (n + unit - 1) / unit, lo = units * i / pieces * unit, hi = units * (i + 1) / pieces * unit;
  *b = lo < n ? lo : n;
  *e = hi < n ? hi : n;
}
