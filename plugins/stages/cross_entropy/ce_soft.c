/* SPDX-License-Identifier: MIT
 * ce_soft.c - the loss against probabilities of the classes, and its gradient, on the CPU. Needs -ffp-contract=off. */
#include "ce_soft.h"

#include <math.h>
#include <string.h>

#include "../../kits/loss/softmax_cpu.h"
#include "../../kits/par.h"

typedef struct pass {
  const loss_job *j;
  int rows;
  const ce_smooth *smooth;
  const float *class_weights;
  double *loss; /* one per chunk */
  int64_t *bad; /* the same: the first share that is outside 0..1, or -1 */
  double scale; /* of the gradient */
  void (*run)(const struct pass *a, int64_t chunk);
} pass;

/* What class c counts at each position of a block. */
WIDTHS_INLINE void shares_of(const pass *a, const softmax_work *w, int n, int64_t c, double *share) {
  const logit_shape *s = &a->j->shape;
  double weight = a->class_weights ? a->class_weights[c] : 1;
  const float *y = a->j->shares + logit_index(s, a->rows, w->b.first, c);
  int64_t step = a->rows ? s->classes : 1;
  int one_sample = a->rows || !s->rows; /* a block of planes is of one sample */
  for (int i = 0; i < n; i++) {
    float v = one_sample ? y[i * step] : a->j->shares[logit_index(s, a->rows, w->b.first + i, c)];
    share[i] = ce_share(a->smooth->own, a->smooth->each, weight, v);
  }
}

/* The loss of n positions, and their gradient in `to`, which lies as the logits do; or NULL. */
WIDTHS_INLINE double soft_block(const pass *a, softmax_work *w, int n, int64_t step, float *to, bool acc) {
  const loss_block *b = &w->b;
  int64_t classes = a->j->shape.classes;
  double share[LOSS_BLOCK], all[LOSS_BLOCK] = {0}, spread[LOSS_BLOCK] = {0}, loss = 0;
  softmax_begin(classes, n, step, w);
  for (int64_t c = 0; c < classes; c++) {
    const float *x = b->x + c * b->stride;
    shares_of(a, w, n, c, share);
    for (int i = 0; i < n; i++) {
      all[i] += share[i];
      spread[i] += share[i] != 0 ? share[i] * ((double)w->top[i] - x[i * step]) : 0;
    }
  }
  for (int i = 0; i < n; i++) loss += all[i] != 0 ? all[i] * log(w->sum[i]) + spread[i] : 0;
  for (int64_t c = 0; c < classes && to; c++) {
    const float *x = b->x + c * b->stride;
    float *g = to + c * b->stride;
    shares_of(a, w, n, c, share);
    for (int i = 0; i < n; i++) {
      double p = exp_neg(x[i * step] - w->top[i]) / w->sum[i], v = a->scale * (p * all[i] - share[i]);
      g[i * step] = acc ? g[i * step] + (float)v : (float)v;
    }
  }
  return loss;
}

/* The first share of these positions that is outside 0..1, as they lie in memory; or -1. */
static int64_t first_bad(const pass *a, int64_t p, int64_t end) {
  const logit_shape *s = &a->j->shape;
  int64_t least = -1;
  for (int64_t c = 0; c < s->classes; c++)
    for (int64_t i = p; i < end; i++) {
      int64_t at = logit_index(s, a->rows, i, c);
      if (loss_is_bad(a->j->shares[at]) && (least < 0 || at < least)) least = at;
    }
  return least;
}

WIDTHS_INLINE void soft_body(const pass *a, int64_t chunk) {
  const loss_job *j = a->j;
  const logit_shape *s = &j->shape;
  int64_t p = chunk * LOSS_CHUNK, all = s->n * s->px, end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all;
  double loss = 0;
  softmax_work w;
  a->bad[chunk] = first_bad(a, p, end);
  for (int n; p < end; p += n) {
    loss_block_at(j, p, end, &w.b);
    n = w.b.n;
    if (softmax_has_tile(s)) {
      softmax_to_tile(s->classes, &w);
      loss += soft_block(a, &w, n, 1, j->g ? w.g : NULL, false);
      if (j->g) softmax_from_tile(&w, n, s->classes, w.b.g, j->acc);
    } else loss += soft_block(a, &w, n, w.b.step, w.b.g, j->acc);
  }
  a->loss[chunk] = loss;
}

WIDTHS_OF(soft, pass)

static int run_chunk(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  a->run(a, chunk);
  (void)worker;
  return SP_OK;
}

int ce_soft_loss(sp_ctx *ctx, const loss_job *j, int rows, const ce_smooth *smooth, const float *class_weights) {
  int64_t chunks = loss_chunks(&j->shape), positions = loss_numbers(j, j->shape.n);
  label_sum all = {positions, -1, (double)positions};
  pass a = {.j = j, .rows = rows, .smooth = smooth, .class_weights = class_weights, .run = soft_choose()};
  a.loss = (double *)((label_sum *)j->scratch + chunks);
  a.bad = (int64_t *)(a.loss + chunks);
  if (positions) a.scale = j->weight / loss_full(j, all.weight) * (double)j->step->loss_scale;
  int rc = par_run(ctx, chunks, run_chunk, &a);
  if (rc) return rc;
  double loss = 0;
  for (int64_t i = 0; i < chunks; i++) {
    loss += a.loss[i];
    if (all.bad < 0 || (a.bad[i] >= 0 && a.bad[i] < all.bad)) all.bad = a.bad[i];
  }
  loss_result(j, &all, positions ? j->weight * (loss / all.weight) : 0);
  return SP_OK;
}
