/* SPDX-License-Identifier: MIT
 * pointwise_cpu.c - losses of single numbers on the CPU: sums are made per chunk and added in chunk order. */
#include <stdbool.h>

#include "../loss/exp_neg.h"
#include "../loss/loss_cpu.h"
#include "../loss/widths.h"
#include "../par.h"
#include "point.h"

#define CHUNK 16384 /* numbers per work item, as they lie in memory */

typedef struct pass {
  const point_job *j;
  double *loss; /* one per chunk */
  int64_t *bad; /* the same: of targets that must lie in 0..1 the first that does not, or -1 */
  float scale;  /* of the gradient */
  void (*run)(const struct pass *a, int64_t chunk);
} pass;

static int64_t numbers_of(const logit_shape *s) { return s->n * s->px * s->classes; }
static int64_t chunks_of(const logit_shape *s) { return (numbers_of(s) + CHUNK - 1) / CHUNK; }

size_t point_scratch(const sp_spec *x) {
  logit_shape s;
  logit_shape_of(&s, x);
  return (size_t)loss_chunks(&s) * sizeof(label_sum) + (size_t)chunks_of(&s) * (sizeof(double) + sizeof(int64_t));
}

/* Numbers side by side; of one sample and class, where classes lie in planes. */
#define BLOCK 64
typedef struct block {
  int n;
  int64_t first, position, c;                               /* of the first number: where it lies, and what it is */
  float t[BLOCK], counts[BLOCK], loss[BLOCK], slope[BLOCK]; /* counts: 1 or 0 */
} block;

static void block_at(const logit_shape *s, int64_t i, int64_t end, block *b) {
  int64_t line = s->rows ? s->classes : s->px, left = s->rows ? end - i : s->px - i % s->px;
  b->first = i;
  b->position = s->rows ? i / line : i / line / s->classes * line + i % line;
  b->c = s->rows ? i % line : i / line % s->classes;
  if (left > end - i) left = end - i;
  b->n = left < BLOCK ? (int)left : BLOCK;
}

/* To the next number of a block. */
static inline void step_on(const logit_shape *s, int64_t *position, int64_t *c) {
  if (!s->rows) ++*position;
  else if (++*c == s->classes) *c = 0, ++*position;
}

static void float_targets(const point_job *j, block *b) {
  const logit_shape *s = &j->l.shape;
  int64_t position = b->position, c = b->c;
  for (int i = 0; i < b->n; i++, step_on(s, &position, &c))
    b->t[i] = j->y[j->y_rows == s->rows ? b->first + i : logit_index(s, j->y_rows, position, c)], b->counts[i] = 1;
}

/* The least place of a target that is outside 0..1, of the block and `least`; -1: there is none. */
static int64_t first_bad(const point_job *j, const block *b, int64_t least) {
  int64_t position = b->position, c = b->c;
  bool some = false;
  for (int i = 0; i < b->n; i++) some |= loss_is_bad(b->t[i]);
  for (int i = 0; i < b->n && some; i++, step_on(&j->l.shape, &position, &c)) {
    int64_t at = logit_index(&j->l.shape, j->y_rows, position, c);
    if (loss_is_bad(b->t[i]) && (least < 0 || at < least)) least = at;
  }
  return least;
}

static void label_targets(const point_job *j, block *b) {
  const loss_job *l = &j->l;
  int64_t position = b->position, c = b->c;
  for (int i = 0; i < b->n; i++, step_on(&l->shape, &position, &c)) {
    int64_t y = label_at(l->labels, l->label_dtype, position);
    bool counts = y != l->ignore && y >= 0 && y < l->values;
    b->t[i] = j->target == TARGET_LABEL ? (float)(y == 1) : (float)(y == c);
    b->counts[i] = counts ? 1.0f : 0.0f;
  }
}

/* Numbers beyond the last have a loss of 0. */
WIDTHS_INLINE void run_block(const point_job *j, int kind, int n, block *b) {
  const float *x = j->l.x + b->first;
  for (int i = 0; i < n; i++) {
    float slope, loss = point_of(j, kind, x[i], b->t[i], &slope);
    b->loss[i] = b->counts[i] != 0 ? loss : 0.0f;
    b->slope[i] = b->counts[i] != 0 ? slope : 0.0f;
  }
  for (int i = n; i < BLOCK; i++) b->loss[i] = 0;
}

WIDTHS_INLINE void run_kind(const point_job *j, int kind, block *b) {
  if (b->n == BLOCK) run_block(j, kind, BLOCK, b);
  else run_block(j, kind, b->n, b);
}

WIDTHS_INLINE void put(float *g, const float *slope, int n, float scale, int acc) {
  if (acc)
    for (int i = 0; i < n; i++) g[i] += slope[i] * scale;
  else
    for (int i = 0; i < n; i++) g[i] = slope[i] * scale;
}

static void put_target(const pass *a, const block *b) {
  const point_job *j = a->j;
  int64_t position = b->position, c = b->c;
  for (int i = 0; i < b->n; i++, step_on(&j->l.shape, &position, &c)) {
    float *g = &j->dy[logit_index(&j->l.shape, j->y_rows, position, c)], v = -(b->slope[i] * a->scale);
    *g = j->dy_acc ? *g + v : v;
  }
}

WIDTHS_INLINE void chunk_body(const pass *a, int64_t chunk) {
  const point_job *j = a->j;
  int64_t i = chunk * CHUNK, all = numbers_of(&j->l.shape), end = i + CHUNK < all ? i + CHUNK : all;
  int64_t bad = -1;
  double loss = 0;
  block b;
  for (; i < end; i += b.n) {
    block_at(&j->l.shape, i, end, &b);
    if (j->target == TARGET_FLOAT) float_targets(j, &b);
    else label_targets(j, &b);
    if (j->l.shares) bad = first_bad(j, &b, bad);
    if (j->kind == POINT_FOCAL_2) run_kind(j, POINT_FOCAL_2, &b);
    else if (j->kind == POINT_FOCAL) run_kind(j, POINT_FOCAL, &b);
    else if (j->kind == POINT_BCE) run_kind(j, POINT_BCE, &b);
    else if (j->cost == POINT_D_SQUARE && !j->l.known) run_kind(j, POINT_PLAIN, &b);
    else run_kind(j, POINT_SQUARE, &b);
    loss += widths_sum(b.loss);
    if (j->l.g) put(j->l.g + i, b.slope, b.n, a->scale, j->l.acc);
    if (j->dy) put_target(a, &b);
  }
  a->loss[chunk] = loss;
  a->bad[chunk] = bad;
}

WIDTHS_OF(chunk, pass)

static int run_chunk(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  a->run(a, chunk);
  (void)worker;
  return SP_OK;
}

/* How many numbers are not NaN. */
static int count_known(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  int64_t i = chunk * CHUNK, all = numbers_of(&a->j->l.shape), end = i + CHUNK < all ? i + CHUNK : all, n = 0;
  for (; i < end; i++) n += a->j->l.known[i] == a->j->l.known[i];
  a->loss[chunk] = (double)n;
  (void)worker;
  return SP_OK;
}

int point_loss(sp_ctx *ctx, const point_job *j) {
  const loss_job *l = &j->l;
  label_sum *labels = l->scratch, all = {numbers_of(&l->shape), -1, (double)numbers_of(&l->shape)};
  int64_t chunks = chunks_of(&l->shape);
  pass a = {.j = j, .run = chunk_choose(), .loss = (double *)(labels + loss_chunks(&l->shape))};
  a.bad = (int64_t *)(a.loss + chunks);
  int rc = j->target == TARGET_FLOAT ? SP_OK : loss_count(ctx, l, NULL, labels, &all);
  if (!rc && l->known) {
    rc = par_run(ctx, chunks, count_known, &a);
    all.weight = 0;
    for (int64_t i = 0; i < chunks; i++) all.weight += a.loss[i];
    all.counted = (int64_t)all.weight;
  }
  if (rc) return rc;
  if (all.counted) a.scale = (float)(l->weight / loss_full(l, all.weight) * (double)l->step->loss_scale);
  if ((rc = par_run(ctx, chunks, run_chunk, &a))) return rc;
  double loss = 0;
  for (int64_t i = 0; i < chunks; i++) loss += a.loss[i];
  for (int64_t i = 0; i < chunks && l->shares; i++)
    if (a.bad[i] >= 0 && (all.bad < 0 || a.bad[i] < all.bad)) all.bad = a.bad[i];
  loss_result(l, &all, all.counted ? l->weight * (loss / all.weight) : 0);
  return SP_OK;
}
