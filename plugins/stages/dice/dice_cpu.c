/* SPDX-License-Identifier: MIT
 * dice_cpu.c - the stage `dice` on the CPU: a pass for the sums of each class, one for the gradient. */
#include <stdbool.h>
#include <string.h>

#include "../../kits/loss/exp_neg.h"
#include "../../kits/loss/loss_cpu.h"
#include "../../kits/loss/widths.h"
#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "dice_class.h"

#define TILE_C 64 /* up to so many classes, positions that lie in rows are turned into a tile of planes first */

typedef struct pass {
  loss_job j;
  label_sum *labels; /* one per chunk */
  dice_sums *sums;   /* classes per chunk */
  float *top, *inv;  /* of each position: the largest logit, 1 / the sum of exponentials */
  dice_slope *slope; /* of each class, with all that the gradient is multiplied by */
  void (*run)(const struct pass *a, int64_t chunk);
} pass;

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = dice_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[LOSS_IN_LOGITS].spec[0]);
  pl->scratch_bytes = (size_t)loss_chunks(&s) * (sizeof(label_sum) + (size_t)s.classes * sizeof(dice_sums)) +
                      (size_t)s.classes * sizeof(dice_slope) + (size_t)(s.n * s.px) * 2 * sizeof(float);
  return SP_OK;
}

/* A block on its way. */
typedef struct work {
  loss_block b;
  float top[LOSS_BLOCK], inv[LOSS_BLOCK];
  float x[TILE_C * LOSS_BLOCK], g[TILE_C * LOSS_BLOCK]; /* the tile, where there is one */
} work;

static bool has_tile(const logit_shape *s) { return s->rows && s->classes <= TILE_C; }

/* Positions that pad the tile repeat the first one, and do not count. */
WIDTHS_INLINE void to_tile(int64_t classes, work *w) {
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

WIDTHS_INLINE void softmax(int64_t classes, int n, int64_t step, work *w) {
  const loss_block *b = &w->b;
  double sum[LOSS_BLOCK] = {0};
  for (int i = 0; i < n; i++) w->top[i] = b->x[i * step];
  for (int64_t c = 1; c < classes; c++)
    for (int i = 0; i < n; i++) {
      float v = b->x[c * b->stride + i * step];
      w->top[i] = v > w->top[i] ? v : w->top[i];
    }
  for (int64_t c = 0; c < classes; c++)
    for (int i = 0; i < n; i++) sum[i] += exp_neg(b->x[c * b->stride + i * step] - w->top[i]);
  for (int i = 0; i < n; i++) w->inv[i] = (float)(1.0 / sum[i]);
}

/* The probabilities of class c; 0 where the label does not count, and beyond the last. */
WIDTHS_INLINE void probabilities(const work *w, int n, int64_t step, int64_t c, float *p) {
  const float *x = w->b.x + c * w->b.stride;
  for (int i = 0; i < n; i++) {
    float v = exp_neg(x[i * step] - w->top[i]) * w->inv[i];
    p[i] = w->b.label[i] >= 0 ? v : 0.0f;
  }
  for (int i = n; i < LOSS_BLOCK; i++) p[i] = 0;
}

WIDTHS_INLINE void add_block(int64_t classes, int n, int64_t step, work *w, dice_sums *sums) {
  float p[LOSS_BLOCK], own[LOSS_BLOCK] = {0};
  softmax(classes, n, step, w);
  for (int64_t c = 0; c < classes; c++) {
    int truth = 0;
    probabilities(w, n, step, c, p);
    for (int i = 0; i < n; i++) own[i] = w->b.label[i] == (int32_t)c ? p[i] : 0.0f;
    for (int i = 0; i < n; i++) truth += w->b.label[i] == (int32_t)c;
    sums[c].said += widths_sum(p);
    sums[c].both += widths_sum(own);
    sums[c].truth += truth;
  }
}

WIDTHS_INLINE void sum_body(const pass *a, int64_t chunk) {
  const logit_shape *s = &a->j.shape;
  int64_t p = chunk * LOSS_CHUNK, all = s->n * s->px, end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all, n;
  dice_sums *sums = a->sums + chunk * s->classes;
  work w;
  for (int64_t c = 0; c < s->classes; c++) sums[c] = (dice_sums){0, 0, 0};
  for (; p < end; p += n) {
    loss_block_at(&a->j, p, end, &w.b);
    n = w.b.n;
    if (has_tile(s)) to_tile(s->classes, &w);
    if (w.b.step != 1) add_block(s->classes, w.b.n, w.b.step, &w, sums);
    else if (w.b.n < LOSS_BLOCK) add_block(s->classes, w.b.n, 1, &w, sums);
    else add_block(s->classes, LOSS_BLOCK, 1, &w, sums);
    memcpy(a->top + p, w.top, (size_t)n * sizeof *w.top);
    memcpy(a->inv + p, w.inv, (size_t)n * sizeof *w.inv);
  }
}

/* Through the softmax: p[c] * (slope of c - mean of the slopes under p). g lies as x does. */
WIDTHS_INLINE void slope_block(const dice_slope *slope, int64_t classes, int n, int64_t step, const work *w, float *to,
                               bool acc) {
  float p[LOSS_BLOCK];
  double mean[LOSS_BLOCK] = {0};
  for (int64_t c = 0; c < classes; c++) {
    double all = slope[c].all, both = all + slope[c].own;
    probabilities(w, n, step, c, p);
    for (int i = 0; i < n; i++) mean[i] += p[i] * (w->b.label[i] == (int32_t)c ? both : all);
  }
  for (int64_t c = 0; c < classes; c++) {
    double all = slope[c].all, both = all + slope[c].own;
    float *g = to + c * w->b.stride;
    probabilities(w, n, step, c, p);
    for (int i = 0; i < n; i++) {
      double v = p[i] * ((w->b.label[i] == (int32_t)c ? both : all) - mean[i]);
      p[i] = w->b.label[i] >= 0 ? (float)v : 0.0f;
    }
    if (acc)
      for (int i = 0; i < n; i++) g[i * step] += p[i];
    else
      for (int i = 0; i < n; i++) g[i * step] = p[i];
  }
}

WIDTHS_INLINE void from_tile(const work *w, int n, int64_t classes, float *g, bool acc) {
  for (int i = 0; i < n; i++)
    for (int64_t c = 0; c < classes; c++) {
      float v = w->g[c * LOSS_BLOCK + i];
      g[i * classes + c] = acc ? g[i * classes + c] + v : v;
    }
}

WIDTHS_INLINE void slope_body(const pass *a, int64_t chunk) {
  const logit_shape *s = &a->j.shape;
  int64_t p = chunk * LOSS_CHUNK, all = s->n * s->px, end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all;
  bool acc = a->j.acc;
  work w;
  for (int n; p < end; p += n) {
    loss_block_at(&a->j, p, end, &w.b);
    n = w.b.n;
    memcpy(w.top, a->top + p, (size_t)n * sizeof *w.top);
    memcpy(w.inv, a->inv + p, (size_t)n * sizeof *w.inv);
    if (has_tile(s)) {
      to_tile(s->classes, &w);
      slope_block(a->slope, s->classes, LOSS_BLOCK, 1, &w, w.g, false);
      from_tile(&w, n, s->classes, w.b.g, acc);
    } else if (w.b.step != 1) slope_block(a->slope, s->classes, n, w.b.step, &w, w.b.g, acc);
    else if (n == LOSS_BLOCK && !acc) slope_block(a->slope, s->classes, LOSS_BLOCK, 1, &w, w.b.g, false);
    else slope_block(a->slope, s->classes, n, 1, &w, w.b.g, acc);
  }
}

WIDTHS_OF(sum, pass)
WIDTHS_OF(slope, pass)

static int run_chunk(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  a->run(a, chunk);
  (void)worker;
  return SP_OK;
}

/* The mean over all classes, those without labels too. */
static double sum_up(const pass *a, const dice_params *p, int64_t chunks) {
  int64_t classes = a->j.shape.classes;
  double loss = 0, scale = p->l.weight / (double)classes * (double)a->j.step->loss_scale;
  for (int64_t c = 0; c < classes; c++) {
    dice_sums all = {0, 0, 0};
    for (int64_t i = 0; i < chunks; i++) {
      const dice_sums *s = &a->sums[i * classes + c];
      all.both += s->both, all.said += s->said, all.truth += s->truth;
    }
    loss += dice_class(&all, p->smooth, p->eps, &a->slope[c]);
    a->slope[c].own *= scale, a->slope[c].all *= scale;
  }
  return p->l.weight * (loss / (double)classes);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const dice_params *p = self;
  pass a;
  label_sum all;
  loss_job_of(&a.j, io, &p->l);
  int64_t chunks = loss_chunks(&a.j.shape), classes = a.j.shape.classes;
  a.labels = io->scratch;
  a.sums = (dice_sums *)(a.labels + chunks);
  a.slope = (dice_slope *)(a.sums + chunks * classes);
  a.top = (float *)(a.slope + classes);
  a.inv = a.top + a.j.shape.n * a.j.shape.px;
  int rc = loss_count(ctx, &a.j, NULL, a.labels, &all);
  a.run = sum_choose();
  if (!rc) rc = par_run(ctx, chunks, run_chunk, &a);
  if (rc) return rc;
  loss_result(&a.j, &all, sum_up(&a, p, chunks));
  if (a.j.total) *a.j.total = all.counted ? 1 : 0; /* each batch has a score of its own */
  a.run = slope_choose();
  return a.j.g ? par_run(ctx, chunks, run_chunk, &a) : SP_OK;
}

SP_STAGE_CPU(DICE_PAIR, .plan = plan, .forward = forward);
