/* SPDX-License-Identifier: MIT
 * softmax_cpu.h - the softmax of a block of positions, whose classes lie in planes or in rows, on the CPU. Needs
 * -ffp-contract=off. */
#ifndef SP_PLUGINS_SOFTMAX_CPU_H
#define SP_PLUGINS_SOFTMAX_CPU_H

#include <stdbool.h>

#include "exp_neg.h"
#include "loss_cpu.h"
#include "widths.h"

#define SOFTMAX_TILE 64 /* up to so many classes, positions that lie in rows are turned into a tile of planes first */

/* A block on its way. */
typedef struct softmax_work {
  loss_block b;
  float top[LOSS_BLOCK], inv[LOSS_BLOCK];
  double sum[LOSS_BLOCK];
  float x[SOFTMAX_TILE * LOSS_BLOCK], g[SOFTMAX_TILE * LOSS_BLOCK]; /* the tile, where there is one */
} softmax_work;

static inline bool softmax_has_tile(const logit_shape *s) { return s->rows && s->classes <= SOFTMAX_TILE; }

/* Positions that pad the tile repeat the first one, and do not count. */
WIDTHS_INLINE void softmax_to_tile(int64_t classes, softmax_work *w) {
  loss_block *b = &w->b;
  for (int i = 0; i < LOSS_BLOCK; i++) {
    const float *x = b->x + (i < b->n ? i : 0) * classes;
    for (int64_t c = 0; c < classes; c++) w->x[c * LOSS_BLOCK + i] = x[c];
  }
  for (int i = b->n; i < LOSS_BLOCK; i++) b->label[i] = -1, w->top[i] = w->inv[i] = 0;
  b->x = w->x;
  b->n = LOSS_BLOCK;
  b->stride = LOSS_BLOCK;
  b->step = 1;
}

/* Of each position the largest logit, the sum of exponentials, and 1 / that. */
WIDTHS_INLINE void softmax_begin(int64_t classes, int n, int64_t step, softmax_work *w) {
  const loss_block *b = &w->b;
  for (int i = 0; i < n; i++) w->top[i] = b->x[i * step], w->sum[i] = 0;
  for (int64_t c = 1; c < classes; c++)
    for (int i = 0; i < n; i++) {
      float v = b->x[c * b->stride + i * step];
      w->top[i] = v > w->top[i] ? v : w->top[i];
    }
  for (int64_t c = 0; c < classes; c++)
    for (int i = 0; i < n; i++) w->sum[i] += exp_neg(b->x[c * b->stride + i * step] - w->top[i]);
  for (int i = 0; i < n; i++) w->inv[i] = (float)(1.0 / w->sum[i]);
}

/* The probabilities of class c; 0 where the label does not count, and beyond the last. */
WIDTHS_INLINE void softmax_of(const softmax_work *w, int n, int64_t step, int64_t c, float *p) {
  const float *x = w->b.x + c * w->b.stride;
  for (int i = 0; i < n; i++) {
    float v = exp_neg(x[i * step] - w->top[i]) * w->inv[i];
    p[i] = w->b.label[i] >= 0 ? v : 0.0f;
  }
  for (int i = n; i < LOSS_BLOCK; i++) p[i] = 0;
}

/* The gradients of the tile to where they belong. */
WIDTHS_INLINE void softmax_from_tile(const softmax_work *w, int n, int64_t classes, float *g, bool acc) {
  for (int i = 0; i < n; i++)
    for (int64_t c = 0; c < classes; c++) {
      float v = w->g[c * LOSS_BLOCK + i];
      g[i * classes + c] = acc ? g[i * classes + c] + v : v;
    }
}

#endif
