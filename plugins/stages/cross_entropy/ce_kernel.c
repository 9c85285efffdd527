/* SPDX-License-Identifier: MIT
 * ce_kernel.c - softmax, loss and gradient of a chunk; compiled once per vector width. Needs -ffp-contract=off. */
#include "ce_kernel.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "../../kits/loss/exp_neg.h"
#include "../../kits/loss/widths.h"

#define BLOCK 64  /* positions handled side by side */
#define LANES 16  /* classes handled side by side, where they lie side by side */
#define TILE_C 64 /* up to so many classes, positions that lie in rows are turned into a tile of planes first */

#define INLINE WIDTHS_INLINE

/* What a block works out on its way. */
typedef struct block {
  int32_t label[BLOCK]; /* -1: does not count */
  float own[BLOCK];     /* what the label's class counts; 0 where the label does not count */
  float weight[BLOCK];  /* what all of the position counts: more than its own with smoothing */
  float top[BLOCK];
  double sum[BLOCK];
  double spread[BLOCK]; /* with smoothing: what the other classes' logits say */
} block;

INLINE void read_labels(const ce_job *j, int64_t first, int n, block *b) {
  for (int i = 0; i < n; i++) {
    int64_t y = label_at(j->labels, j->label_dtype, first + i);
    bool counts = y != j->ignore && y >= 0 && y < j->shape.classes;
    b->label[i] = counts ? (int32_t)y : -1;
    b->own[i] = !counts ? 0.0f : j->smooth.own * (j->class_weights ? j->class_weights[y] : 1.0f);
    b->weight[i] = !counts ? 0.0f : b->own[i] + j->smooth.all;
  }
}

/* Smoothing, after the rest: the part of each class, for n positions that are `step` apart and their classes `stride`;
 * g, which may be NULL, lies as x does. */
INLINE void smooth(const ce_job *j, const float *x, int64_t stride, int64_t step, float *g, int n, block *b) {
  if (j->smooth.each == 0) return;
  for (int i = 0; i < n; i++) b->spread[i] = 0;
  for (int64_t c = 0; c < j->shape.classes; c++) {
    double each = j->smooth.each * (j->class_weights ? j->class_weights[c] : 1.0);
    float k = (float)(j->scale * each);
    for (int i = 0; i < n; i++) b->spread[i] += each * ((double)x[c * stride + i * step] - b->top[i]);
    for (int i = 0; i < n && g; i++) g[c * stride + i * step] -= b->label[i] >= 0 ? k : 0.0f;
  }
}

/* Sum over the block of weight * log(sum) - own * (x[label] - top) - spread; `picked` is x[label]. */
INLINE double smooth_loss(const block *b, const float *picked, int n) {
  double loss = 0;
  for (int i = 0; i < n; i++)
    if (b->weight[i] != 0)
      loss += b->weight[i] * log(b->sum[i]) - b->own[i] * ((double)picked[i] - b->top[i]) - b->spread[i];
  return loss;
}

/* Sum over the block of weight * (log(sum) - (x[label] - top)); `picked` is x[label]. Without class weights one
 * logarithm serves several positions: sums lie in 1..classes, so a product of `group` of them can't overflow. */
INLINE double block_loss(const ce_job *j, const block *b, const float *picked, int n) {
  double loss = 0;
  if (j->smooth.each != 0) return smooth_loss(b, picked, n);
  if (j->class_weights) {
    for (int i = 0; i < n; i++)
      if (b->weight[i] != 0) loss += b->weight[i] * (log(b->sum[i]) - ((double)picked[i] - b->top[i]));
    return loss;
  }
  int group = (int)(1000.0 / (log2((double)j->shape.classes) + 1.0));
  for (int i = 0; i < n;) {
    double product = 1, picks = 0;
    for (int e = i + group < n ? i + group : n; i < e; i++) {
      if (b->label[i] < 0) continue;
      product *= b->sum[i];
      picks += (double)picked[i] - b->top[i];
    }
    loss += log(product) - picks;
  }
  return loss;
}

/* n positions side by side, classes `stride` apart. g may be NULL; its classes are gstride apart. */
INLINE void planes(const float *x, int64_t stride, float *g, int64_t gstride, int n, int64_t classes, float scale,
                   bool acc, block *b) {
  float inv[BLOCK], k[BLOCK];
  for (int i = 0; i < n; i++) b->top[i] = x[i], b->sum[i] = 0;
  for (int64_t c = 1; c < classes; c++) {
    const float *xc = x + c * stride;
    for (int i = 0; i < n; i++) b->top[i] = xc[i] > b->top[i] ? xc[i] : b->top[i];
  }
  for (int64_t c = 0; c < classes; c++) {
    const float *xc = x + c * stride;
    float e[BLOCK];
    for (int i = 0; i < n; i++) e[i] = exp_neg(xc[i] - b->top[i]);
    for (int i = 0; i < n; i++) b->sum[i] += e[i];
    if (g && !acc) memcpy(g + c * gstride, e, (size_t)n * sizeof *e);
  }
  if (!g) return;
  for (int i = 0; i < n; i++) inv[i] = (float)(1.0 / b->sum[i]), k[i] = scale * b->weight[i];
  for (int64_t c = 0; c < classes; c++) {
    const float *xc = x + c * stride;
    float *gc = g + c * gstride;
    if (acc) {
      for (int i = 0; i < n; i++) gc[i] += k[i] != 0 ? exp_neg(xc[i] - b->top[i]) * inv[i] * k[i] : 0.0f;
    } else {
      for (int i = 0; i < n; i++) gc[i] = k[i] != 0 ? gc[i] * inv[i] * k[i] : 0.0f;
    }
  }
  for (int i = 0; i < n; i++)
    if (b->label[i] >= 0) g[b->label[i] * gstride + i] -= scale * b->own[i];
}

INLINE double planes_block(const ce_job *j, const float *x, float *g, int n, block *b) {
  float picked[BLOCK] = {0};
  int64_t stride = j->shape.px, classes = j->shape.classes;
  if (n == BLOCK && !j->acc) planes(x, stride, g, stride, BLOCK, classes, j->scale, false, b);
  else planes(x, stride, g, stride, n, classes, j->scale, j->acc, b);
  smooth(j, x, stride, 1, g, n, b);
  for (int i = 0; i < n; i++)
    if (b->label[i] >= 0) picked[i] = x[b->label[i] * stride + i];
  return block_loss(j, b, picked, n);
}

/* n positions, the few classes of each side by side. Positions that pad the tile repeat the first one. */
INLINE double tile_block(const ce_job *j, const float *x, float *g, int n, block *b) {
  float t[TILE_C * BLOCK], dt[TILE_C * BLOCK], picked[BLOCK] = {0};
  int classes = (int)j->shape.classes;
  for (int i = 0; i < BLOCK; i++) {
    const float *xi = x + (i < n ? i : 0) * classes;
    for (int c = 0; c < classes; c++) t[c * BLOCK + i] = xi[c];
  }
  for (int i = n; i < BLOCK; i++) b->label[i] = -1, b->weight[i] = 0;
  planes(t, BLOCK, g ? dt : NULL, BLOCK, BLOCK, classes, j->scale, false, b);
  smooth(j, t, BLOCK, 1, g ? dt : NULL, BLOCK, b);
  for (int i = 0; i < n && g; i++) {
    float *gi = g + i * classes;
    if (j->acc)
      for (int c = 0; c < classes; c++) gi[c] += dt[c * BLOCK + i];
    else
      for (int c = 0; c < classes; c++) gi[c] = dt[c * BLOCK + i];
  }
  for (int i = 0; i < n; i++)
    if (b->label[i] >= 0) picked[i] = t[b->label[i] * BLOCK + i];
  return block_loss(j, b, picked, n);
}

/* One position, many classes side by side; in pieces of BLOCK, so that each loop is a plain one. */
INLINE void row(const float *x, float *g, int64_t classes, float k, bool acc, float *top_out, double *sum_out) {
  float top[LANES], e[BLOCK], m;
  double sum[LANES] = {0};
  int64_t whole = classes - classes % LANES;
  for (int l = 0; l < LANES; l++) top[l] = x[l < classes ? l : 0];
  for (int64_t c = 0; c < whole; c += LANES)
    for (int l = 0; l < LANES; l++) top[l] = x[c + l] > top[l] ? x[c + l] : top[l];
  for (int64_t c = whole; c < classes; c++) top[0] = x[c] > top[0] ? x[c] : top[0];
  m = top[0];
  for (int l = 1; l < LANES; l++) m = top[l] > m ? top[l] : m;
  for (int64_t c = 0; c < classes; c += BLOCK) {
    int n = classes - c < BLOCK ? (int)(classes - c) : BLOCK, lanes = n - n % LANES;
    for (int i = 0; i < n; i++) e[i] = exp_neg(x[c + i] - m);
    for (int i = 0; i < lanes; i += LANES)
      for (int l = 0; l < LANES; l++) sum[l] += e[i + l];
    for (int i = lanes; i < n; i++) sum[i - lanes] += e[i];
    if (g && !acc) memcpy(g + c, e, (size_t)n * sizeof *e);
  }
  for (int l = 1; l < LANES; l++) sum[0] += sum[l];
  *top_out = m;
  *sum_out = sum[0];
  if (!g) return;
  float inv = (float)(1.0 / sum[0]);
  if (acc)
    for (int64_t c = 0; c < classes && k != 0; c++) g[c] += exp_neg(x[c] - m) * inv * k;
  else if (k != 0)
    for (int64_t c = 0; c < classes; c++) g[c] = g[c] * inv * k;
  else memset(g, 0, (size_t)classes * sizeof *g);
}

INLINE double rows_block(const ce_job *j, const float *x, float *g, int n, block *b) {
  float picked[BLOCK] = {0};
  int64_t classes = j->shape.classes;
  for (int i = 0; i < n; i++) {
    const float *xi = x + i * classes;
    float *gi = g ? g + i * classes : NULL, k = j->scale * b->weight[i];
    if (j->acc) row(xi, gi, classes, k, true, &b->top[i], &b->sum[i]);
    else row(xi, gi, classes, k, false, &b->top[i], &b->sum[i]);
    if (b->label[i] < 0) continue;
    picked[i] = xi[b->label[i]];
    if (gi) gi[b->label[i]] -= j->scale * b->own[i];
  }
  smooth(j, x, 1, classes, g, n, b);
  return block_loss(j, b, picked, n);
}

INLINE void chunk_body(const ce_job *j, int64_t chunk) {
  const logit_shape *s = &j->shape;
  int64_t p = chunk * LOSS_CHUNK, all = s->n * s->px, end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all;
  double loss = 0;
  block b;
  while (p < end) {
    int64_t sample = p / s->px, at = p % s->px, left = s->rows ? end - p : s->px - at, off;
    if (left > end - p) left = end - p;
    int n = left < BLOCK ? (int)left : BLOCK;
    read_labels(j, p, n, &b);
    off = s->rows ? p * s->classes : sample * s->classes * s->px + at;
    float *g = j->g ? j->g + off : NULL;
    if (!s->rows) loss += planes_block(j, j->x + off, g, n, &b);
    else if (s->classes <= TILE_C) loss += tile_block(j, j->x + off, g, n, &b);
    else loss += rows_block(j, j->x + off, g, n, &b);
    p += n;
  }
  j->loss[chunk] = loss;
}

WIDTHS_OF(chunk, ce_job)

ce_fn ce_choose(void) { return chunk_choose(); }
