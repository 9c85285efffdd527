/* SPDX-License-Identifier: MIT
 * lovasz_cpu.c - the stage `lovasz` on the CPU: a pass for the softmax of each position, one that sorts the errors of
 * each class, one for the gradient. */
#include "../../kits/loss/softmax_cpu.h"
#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "lovasz_step.h"

#define DIGITS 2048 /* of a key, in each of three passes over it */
#define BITS 11

/* A position that counts, as it is sorted; which: the position, and bit 0: its label is the class. */
typedef struct entry {
  uint32_t key, which;
} entry;

typedef struct of_class {
  double loss;
  int64_t there; /* whether the mean is over it */
} of_class;

typedef struct pass {
  loss_job j;
  int hinge, all_classes;
  label_sum *labels; /* one per chunk */
  of_class *found;   /* of each class */
  entry *room;       /* twice all positions, for each thread */
  float *top, *inv;  /* of each position: the largest logit, 1 / the sum of exponentials */
  float *slope;      /* of each class and position */
  float scale;       /* of the gradient */
  void (*run)(const struct pass *a, int64_t chunk);
} pass;

static int64_t positions_of(const logit_shape *s) { return s->n * s->px; }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = lovasz_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[LOSS_IN_LOGITS].spec[0]);
  size_t positions = (size_t)positions_of(&s), classes = (size_t)s.classes;
  pl->scratch_bytes = (size_t)loss_chunks(&s) * sizeof(label_sum) + classes * sizeof(of_class) +
                      (size_t)par_threads(ctx) * 2 * positions * sizeof(entry) +
                      (2 + classes) * positions * sizeof(float);
  return SP_OK;
}

/* ---- the softmax ---- */
WIDTHS_INLINE void softmax_body(const pass *a, int64_t chunk) {
  const logit_shape *s = &a->j.shape;
  int64_t p = chunk * LOSS_CHUNK, all = positions_of(s), end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all, n;
  softmax_work w;
  for (; p < end; p += n) {
    loss_block_at(&a->j, p, end, &w.b);
    n = w.b.n;
    if (softmax_has_tile(s)) softmax_to_tile(s->classes, &w);
    softmax_begin(s->classes, w.b.n, w.b.step, &w);
    memcpy(a->top + p, w.top, (size_t)n * sizeof *w.top);
    memcpy(a->inv + p, w.inv, (size_t)n * sizeof *w.inv);
  }
}

/* ---- one class ---- */

/* The errors of the positions that count, in their order; how many there are. */
static int64_t list(const pass *a, int64_t c, entry *to, int64_t *truth) {
  const loss_job *j = &a->j;
  int64_t n = 0;
  *truth = 0;
  for (int64_t p = 0; p < positions_of(&j->shape); p++) {
    int64_t y = label_at(j->labels, j->label_dtype, p);
    if (y == j->ignore || y < 0 || y >= j->values) continue;
    float x = j->x[logit_index(&j->shape, j->shape.rows, p, c)];
    int is_true = y == (a->hinge ? 1 : c);
    float error = lovasz_error(a->hinge, is_true, a->hinge ? x : exp_neg(x - a->top[p]) * a->inv[p]);
    to[n++] = (entry){lovasz_key(error), (uint32_t)p << 1 | (uint32_t)is_true};
    *truth += is_true;
  }
  return n;
}

/* By a digit of the key; of equals those that came first. */
static void sort_by(const entry *from, entry *to, int64_t n, int shift) {
  int64_t at[DIGITS] = {0}, sum = 0;
  for (int64_t i = 0; i < n; i++) at[from[i].key >> shift & (DIGITS - 1)]++;
  for (int d = 0; d < DIGITS; d++) {
    int64_t count = at[d];
    at[d] = sum, sum += count;
  }
  for (int64_t i = 0; i < n; i++) to[at[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

static int run_class(void *arg, int64_t c, int worker) {
  const pass *a = arg;
  int64_t positions = positions_of(&a->j.shape), truth, hits = 0, others = 0, n;
  entry *one = a->room + 2 * positions * worker, *two = one + positions;
  float *slope = a->slope + c * positions;
  of_class *found = &a->found[c];
  n = list(a, c, one, &truth);
  *found = (of_class){0, n && (a->hinge || a->all_classes || truth)};
  if (!found->there) return SP_OK;
  sort_by(one, two, n, 0);
  sort_by(two, one, n, BITS);
  sort_by(one, two, n, 2 * BITS);
  for (int64_t i = 0; i < n; i++) {
    int is_true = two[i].which & 1;
    float error = lovasz_error_of(two[i].key);
    hits += is_true, others += !is_true;
    double step = lovasz_step(truth, hits, others, is_true);
    found->loss += error * step;
    slope[two[i].which >> 1] = a->hinge && error == 0 ? 0 : (float)(is_true ? -step : step);
  }
  return SP_OK;
}

/* ---- the gradient ---- */

/* Through the softmax: p[c] * (slope of c - mean of the slopes under p). g lies as x does. */
static void slope_block(const pass *a, int n, int64_t first, const softmax_work *w, float *to, bool acc) {
  int64_t classes = a->j.shape.classes, step = w->b.step;
  float p[LOSS_BLOCK];
  double mean[LOSS_BLOCK] = {0};
  for (int64_t c = 0; c < classes; c++) {
    const float *slope = a->slope + c * positions_of(&a->j.shape) + first;
    if (!a->found[c].there) continue;
    softmax_of(w, n, step, c, p);
    for (int i = 0; i < n; i++)
      if (w->b.label[i] >= 0) mean[i] += (double)p[i] * slope[i];
  }
  for (int64_t c = 0; c < classes; c++) {
    const float *slope = a->slope + c * positions_of(&a->j.shape) + first;
    float *g = to + c * w->b.stride;
    softmax_of(w, n, step, c, p);
    for (int i = 0; i < n; i++) {
      double own = w->b.label[i] >= 0 && a->found[c].there ? slope[i] : 0;
      float v = w->b.label[i] >= 0 ? (float)(p[i] * (own - mean[i])) * a->scale : 0.0f;
      g[i * step] = acc ? g[i * step] + v : v;
    }
  }
}

static void hinge_chunk(const pass *a, int64_t p, int64_t end) {
  for (; p < end; p++) {
    int64_t y = label_at(a->j.labels, a->j.label_dtype, p);
    float v = y != a->j.ignore && y >= 0 && y < a->j.values ? a->slope[p] * a->scale : 0.0f;
    a->j.g[p] = a->j.acc ? a->j.g[p] + v : v;
  }
}

static int run_slope(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  const logit_shape *s = &a->j.shape;
  int64_t p = chunk * LOSS_CHUNK, all = positions_of(s), end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all;
  softmax_work w;
  (void)worker;
  if (a->hinge) hinge_chunk(a, p, end);
  for (int n; !a->hinge && p < end; p += n) {
    loss_block_at(&a->j, p, end, &w.b);
    n = w.b.n;
    memcpy(w.top, a->top + p, (size_t)n * sizeof *w.top);
    memcpy(w.inv, a->inv + p, (size_t)n * sizeof *w.inv);
    if (softmax_has_tile(s)) {
      softmax_to_tile(s->classes, &w);
      slope_block(a, n, p, &w, w.g, false);
      softmax_from_tile(&w, n, s->classes, w.b.g, a->j.acc);
    } else slope_block(a, n, p, &w, w.b.g, a->j.acc);
  }
  return SP_OK;
}

WIDTHS_OF(softmax, pass)

static int run_softmax(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  a->run(a, chunk);
  (void)worker;
  return SP_OK;
}

static void lay_out(pass *a, void *scratch, int threads) {
  int64_t positions = positions_of(&a->j.shape);
  a->labels = scratch;
  a->found = (of_class *)(a->labels + loss_chunks(&a->j.shape));
  a->room = (entry *)(a->found + a->j.shape.classes);
  a->top = (float *)(a->room + 2 * positions * threads);
  a->inv = a->top + positions;
  a->slope = a->inv + positions;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const lovasz_params *p = self;
  pass a = {.all_classes = p->over == LOVASZ_ALL, .run = softmax_choose()};
  label_sum all;
  lovasz_job(&a.j, p, io);
  a.hinge = lovasz_is_hinge(&a.j.shape);
  lay_out(&a, io->scratch, par_threads(ctx));
  int64_t chunks = loss_chunks(&a.j.shape), classes = a.j.shape.classes, there = 0;
  int rc = loss_count(ctx, &a.j, NULL, a.labels, &all);
  if (!rc && !a.hinge) rc = par_run(ctx, chunks, run_softmax, &a);
  if (!rc) rc = par_run(ctx, classes, run_class, &a);
  if (rc) return rc;
  double loss = 0;
  for (int64_t c = 0; c < classes; c++) loss += a.found[c].loss, there += a.found[c].there;
  loss_result(&a.j, &all, there ? a.j.weight * (loss / (double)there) : 0);
  if (a.j.total) *a.j.total = all.counted ? 1 : 0; /* each batch has a score of its own */
  if (there) a.scale = (float)(a.j.weight / (double)there * (double)io->step->loss_scale);
  return a.j.g ? par_run(ctx, chunks, run_slope, &a) : SP_OK;
}

SP_STAGE_CPU(LOVASZ_PAIR, .plan = plan, .forward = forward);
