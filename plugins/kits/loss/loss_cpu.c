/* SPDX-License-Identifier: MIT
 * loss_cpu.c - the labels of a loss, and what comes out, on the CPU. */
#include "loss_cpu.h"

#include <math.h>
#include <string.h>

#include "../par.h"

typedef struct pass {
  const loss_job *job;
  const float *class_weights;
  label_sum *parts;
} pass;

static int count_chunk(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  const loss_job *j = a->job;
  int64_t p = chunk * LOSS_CHUNK, all = j->shape.n * j->shape.px, end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all;
  label_sum s = {0, -1, 0};
  for (; p < end; p++) {
    int64_t y = label_at(j->labels, j->label_dtype, p);
    if (y == j->ignore) continue;
    if (y < 0 || y >= j->values) {
      if (s.bad < 0) s.bad = p;
      continue;
    }
    float w = a->class_weights ? a->class_weights[y] : 1.0f;
    s.counted += w != 0;
    s.weight += w;
  }
  a->parts[chunk] = s;
  (void)worker;
  return SP_OK;
}

int loss_count(sp_ctx *ctx, const loss_job *j, const float *class_weights, label_sum *parts, label_sum *all) {
  pass a = {j, class_weights, parts};
  int64_t chunks = loss_chunks(&j->shape);
  int rc = par_run(ctx, chunks, count_chunk, &a);
  if (rc) return rc;
  *all = (label_sum){0, -1, 0};
  for (int64_t i = 0; i < chunks; i++) {
    all->counted += parts[i].counted;
    all->weight += parts[i].weight;
    if (all->bad < 0) all->bad = parts[i].bad;
  }
  return SP_OK;
}

double loss_full(const loss_job *j, double weight) {
  return !j->step->batch ? weight : (double)loss_numbers(j, j->step->batch);
}

void loss_result(const loss_job *j, const label_sum *all, double mean) {
  *j->loss = (float)mean;
  *j->valid = all->counted;
  if (j->total) *j->total = j->step->batch ? all->weight / loss_full(j, all->weight) : all->weight;
  if (j->shares) target_status(j, all->bad);
  else label_status(j->status, LOSS_BAD_LABEL, j->labels, j->label_dtype, all->bad, j->shape.px, j->ids, j->values - 1);
  if (all->bad < 0 && j->stop && !isfinite(*j->loss)) j->status[0] = LOSS_NOT_FINITE;
}

void loss_block_at(const loss_job *j, int64_t p, int64_t end, loss_block *b) {
  const logit_shape *s = &j->shape;
  int64_t left = s->rows || s->px - p % s->px > end - p ? end - p : s->px - p % s->px;
  int64_t at = s->rows ? p * s->classes : p / s->px * s->classes * s->px + p % s->px;
  b->first = p;
  b->n = left < LOSS_BLOCK ? (int)left : LOSS_BLOCK;
  b->x = j->x + at;
  b->g = j->g ? j->g + at : NULL;
  b->stride = s->rows ? 1 : s->px;
  b->step = s->rows ? s->classes : 1;
  for (int i = 0; i < b->n; i++) {
    if (!j->labels) {
      b->label[i] = 0; /* counts */
      continue;
    }
    int64_t y = label_at(j->labels, j->label_dtype, p + i);
    b->label[i] = y != j->ignore && y >= 0 && y < j->values ? (int32_t)y : -1;
  }
}
