/* SPDX-License-Identifier: MIT
 * dice_cpu.c - the stage `dice` on the CPU: a pass for the sums of each class, one for the gradient. */
#include <stdbool.h>

#include "../../kits/loss/exp_neg.h"
#include "../../kits/loss/loss_cpu.h"
#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "dice_class.h"

#define INLINE static inline __attribute__((always_inline))

typedef struct pass {
  loss_job j;
  label_sum *labels; /* one per chunk */
  dice_sums *sums;   /* classes per chunk */
  float *top, *inv;  /* of each position: the largest logit, 1 / the sum of exponentials */
  dice_slope *slope; /* of each class, with all that the gradient is multiplied by */
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

INLINE void softmax(const pass *a, const loss_block *b, int64_t step) {
  float *top = a->top + b->first, *inv = a->inv + b->first;
  double sum[LOSS_BLOCK] = {0};
  for (int i = 0; i < b->n; i++) top[i] = b->x[i * step];
  for (int64_t c = 1; c < a->j.shape.classes; c++)
    for (int i = 0; i < b->n; i++) {
      float v = b->x[c * b->stride + i * step];
      top[i] = v > top[i] ? v : top[i];
    }
  for (int64_t c = 0; c < a->j.shape.classes; c++)
    for (int i = 0; i < b->n; i++) sum[i] += exp_neg(b->x[c * b->stride + i * step] - top[i]);
  for (int i = 0; i < b->n; i++) inv[i] = (float)(1.0 / sum[i]);
}

/* The probabilities of class c; 0 where the label does not count. */
INLINE void probabilities(const pass *a, const loss_block *b, int64_t step, int64_t c, float *p) {
  const float *top = a->top + b->first, *inv = a->inv + b->first, *x = b->x + c * b->stride;
  for (int i = 0; i < b->n; i++) p[i] = exp_neg(x[i * step] - top[i]) * inv[i];
  for (int i = 0; i < b->n; i++) p[i] = b->label[i] >= 0 ? p[i] : 0.0f;
}

INLINE void add_block(const pass *a, const loss_block *b, int64_t step, dice_sums *sums) {
  float p[LOSS_BLOCK];
  softmax(a, b, step);
  for (int64_t c = 0; c < a->j.shape.classes; c++) {
    dice_sums *s = &sums[c];
    probabilities(a, b, step, c, p);
    for (int i = 0; i < b->n; i++) {
      bool own = b->label[i] == c;
      s->said += p[i];
      s->both += own ? p[i] : 0.0f;
      s->truth += own;
    }
  }
}

static int sum_chunk(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  int64_t classes = a->j.shape.classes, p = chunk * LOSS_CHUNK, all = a->j.shape.n * a->j.shape.px;
  int64_t end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all;
  dice_sums *sums = a->sums + chunk * classes;
  loss_block b;
  (void)worker;
  for (int64_t c = 0; c < classes; c++) sums[c] = (dice_sums){0, 0, 0};
  for (; p < end; p += b.n) {
    loss_block_at(&a->j, p, end, &b);
    if (b.step == 1) add_block(a, &b, 1, sums);
    else add_block(a, &b, b.step, sums);
  }
  return SP_OK;
}

/* Through the softmax: p[c] * (slope of c - mean of the slopes under p). */
INLINE void slope_block(const pass *a, const loss_block *b, int64_t step) {
  float p[LOSS_BLOCK];
  double mean[LOSS_BLOCK] = {0};
  for (int64_t c = 0; c < a->j.shape.classes; c++) {
    dice_slope s = a->slope[c];
    probabilities(a, b, step, c, p);
    for (int i = 0; i < b->n; i++) mean[i] += p[i] * (b->label[i] == c ? s.all + s.own : s.all);
  }
  for (int64_t c = 0; c < a->j.shape.classes; c++) {
    dice_slope s = a->slope[c];
    float *g = b->g + c * b->stride;
    probabilities(a, b, step, c, p);
    for (int i = 0; i < b->n; i++) {
      double d = p[i] * ((b->label[i] == c ? s.all + s.own : s.all) - mean[i]);
      float v = b->label[i] >= 0 ? (float)d : 0.0f;
      g[i * step] = a->j.acc ? g[i * step] + v : v;
    }
  }
}

static int slope_chunk(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  int64_t p = chunk * LOSS_CHUNK, all = a->j.shape.n * a->j.shape.px;
  int64_t end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all;
  loss_block b;
  (void)worker;
  for (; p < end; p += b.n) {
    loss_block_at(&a->j, p, end, &b);
    if (b.step == 1) slope_block(a, &b, 1);
    else slope_block(a, &b, b.step);
  }
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
  if (!rc) rc = par_run(ctx, chunks, sum_chunk, &a);
  if (rc) return rc;
  loss_result(&a.j, &all, sum_up(&a, p, chunks));
  return a.j.g ? par_run(ctx, chunks, slope_chunk, &a) : SP_OK;
}

static const sp_stage_type dice_type = {.size = sizeof(sp_stage_type),
                                        .flags = SP_STAGE_LOSS,
                                        .name = "dice",
                                        .device = "cpu",
                                        .doc = DICE_DOC,
                                        .inputs = loss_inputs,
                                        .outputs = loss_outputs,
                                        .params = dice_param_table,
                                        .params_size = sizeof(dice_params),
                                        .status_doc = LOSS_STATUS_DOC,
                                        .create = stateless_create,
                                        .destroy = stateless_destroy,
                                        .plan = plan,
                                        .forward = forward};
static const sp_stage_type *const stages[] = {&dice_type, NULL};

SP_PLUGIN("dice", "Dice loss", stages);
