/* SPDX-License-Identifier: MIT
 * pointwise_cpu.c - losses of single numbers on the CPU: sums are made per chunk and added in chunk order. */
#include <stdbool.h>

#include "../loss/exp_neg.h"
#include "../loss/loss_cpu.h"
#include "../par.h"
#include "point.h"

#define CHUNK 16384 /* numbers per work item, as they lie in memory */

typedef struct pass {
  const point_job *j;
  double *loss; /* one per chunk */
  float scale;  /* of the gradient */
} pass;

static int64_t numbers_of(const logit_shape *s) { return s->n * s->px * s->classes; }
static int64_t chunks_of(const logit_shape *s) { return (numbers_of(s) + CHUNK - 1) / CHUNK; }

size_t point_scratch(const sp_spec *x) {
  logit_shape s;
  logit_shape_of(&s, x);
  return (size_t)loss_chunks(&s) * sizeof(label_sum) + (size_t)chunks_of(&s) * sizeof(double);
}

/* A number's place. */
typedef struct place {
  int64_t position, c;
} place;

static place place_of(const logit_shape *s, int64_t i) {
  if (s->rows) return (place){i / s->classes, i % s->classes};
  return (place){i / s->px / s->classes * s->px + i % s->px, i / s->px % s->classes};
}

/* To the place of the next number in memory. */
static inline void step_on(const logit_shape *s, place *at) {
  if (s->rows) {
    if (++at->c == s->classes) at->c = 0, at->position++;
  } else if (++at->position % s->px == 0) {
    if (++at->c == s->classes) at->c = 0;
    else at->position -= s->px;
  }
}

/* false: the number does not count. */
static inline bool target_of(const point_job *j, const place *at, int64_t i, float *t) {
  const loss_job *l = &j->l;
  if (j->target == TARGET_FLOAT) {
    *t = j->y[j->y_rows == l->shape.rows ? i : point_index(&l->shape, j->y_rows, at->position, at->c)];
    return true;
  }
  int64_t y = label_at(l->labels, l->label_dtype, at->position);
  *t = j->target == TARGET_LABEL ? (float)y : (float)(y == at->c);
  return y != l->ignore && y >= 0 && y < l->values;
}

static void put(float *g, float v, int acc) { *g = acc ? *g + v : v; }

static int run_chunk(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  const point_job *j = a->j;
  const logit_shape *s = &j->l.shape;
  int64_t i = chunk * CHUNK, all = numbers_of(s), end = i + CHUNK < all ? i + CHUNK : all;
  place at = place_of(s, i);
  double loss = 0;
  (void)worker;
  for (; i < end; i++, step_on(s, &at)) {
    float t, slope = 0;
    if (target_of(j, &at, i, &t)) loss += point_of(j, j->kind, j->l.x[i], t, &slope);
    slope *= a->scale;
    if (j->l.g) put(&j->l.g[i], slope, j->l.acc);
    if (j->dy) put(&j->dy[point_index(s, j->y_rows, at.position, at.c)], -slope, j->dy_acc);
  }
  a->loss[chunk] = loss;
  return SP_OK;
}

int point_loss(sp_ctx *ctx, const point_job *j) {
  const loss_job *l = &j->l;
  label_sum *labels = l->scratch, all = {numbers_of(&l->shape), -1, (double)numbers_of(&l->shape)};
  int64_t chunks = chunks_of(&l->shape);
  pass a = {.j = j, .loss = (double *)(labels + loss_chunks(&l->shape))};
  int rc = j->target == TARGET_FLOAT ? SP_OK : loss_count(ctx, l, NULL, labels, &all);
  if (rc) return rc;
  if (all.counted) a.scale = (float)(l->weight / all.weight * (double)l->step->loss_scale);
  if ((rc = par_run(ctx, chunks, run_chunk, &a))) return rc;
  double loss = 0;
  for (int64_t i = 0; i < chunks; i++) loss += a.loss[i];
  loss_result(l, &all, all.counted ? l->weight * (loss / all.weight) : 0);
  return SP_OK;
}
