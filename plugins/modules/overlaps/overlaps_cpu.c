/* SPDX-License-Identifier: MIT
 * overlaps_cpu.c - the losses `dice`, `jaccard` and `tversky` on the CPU: a pass for the sums of each class,
 * one for the gradient. */
#include <stdbool.h>
#include <string.h>

#include "../../kits/loss/softmax_cpu.h"
#include "../../kits/par.h"
#include "overlaps_class.h"

typedef struct pass {
  loss_job j;
  label_sum *labels;    /* one per chunk */
  overlap_sums *sums;   /* classes per chunk */
  float *top, *inv;     /* of each position: the largest logit, 1 / the sum of exponentials */
  overlap_slope *slope; /* of each class, with all that the gradient is multiplied by */
  void (*run)(const struct pass *a, int64_t chunk);
} pass;

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = overlap_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[LOSS_IN_LOGITS].spec[0]);
  pl->scratch_bytes = (size_t)loss_chunks(&s) * (sizeof(label_sum) + (size_t)s.classes * sizeof(overlap_sums)) +
                      (size_t)s.classes * sizeof(overlap_slope) + (size_t)(s.n * s.px) * 2 * sizeof(float);
  return SP_OK;
}

WIDTHS_INLINE void add_block(int64_t classes, int n, int64_t step, softmax_work *w, overlap_sums *sums) {
  float p[LOSS_BLOCK], own[LOSS_BLOCK] = {0};
  softmax_begin(classes, n, step, w);
  for (int64_t c = 0; c < classes; c++) {
    int truth = 0;
    softmax_of(w, n, step, c, p);
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
  overlap_sums *sums = a->sums + chunk * s->classes;
  softmax_work w;
  for (int64_t c = 0; c < s->classes; c++) sums[c] = (overlap_sums){0, 0, 0};
  for (; p < end; p += n) {
    loss_block_at(&a->j, p, end, &w.b);
    n = w.b.n;
    if (softmax_has_tile(s)) softmax_to_tile(s->classes, &w);
    if (w.b.step != 1) add_block(s->classes, w.b.n, w.b.step, &w, sums);
    else if (w.b.n < LOSS_BLOCK) add_block(s->classes, w.b.n, 1, &w, sums);
    else add_block(s->classes, LOSS_BLOCK, 1, &w, sums);
    memcpy(a->top + p, w.top, (size_t)n * sizeof *w.top);
    memcpy(a->inv + p, w.inv, (size_t)n * sizeof *w.inv);
  }
}

/* Through the softmax: p[c] * (slope of c - mean of the slopes under p). g lies as x does. */
WIDTHS_INLINE void slope_block(const overlap_slope *slope, int64_t classes, int n, int64_t step, const softmax_work *w,
                               float *to, bool acc) {
  float p[LOSS_BLOCK];
  double mean[LOSS_BLOCK] = {0};
  for (int64_t c = 0; c < classes; c++) {
    double all = slope[c].all, both = all + slope[c].own;
    softmax_of(w, n, step, c, p);
    for (int i = 0; i < n; i++) mean[i] += p[i] * (w->b.label[i] == (int32_t)c ? both : all);
  }
  for (int64_t c = 0; c < classes; c++) {
    double all = slope[c].all, both = all + slope[c].own;
    float *g = to + c * w->b.stride;
    softmax_of(w, n, step, c, p);
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

WIDTHS_INLINE void slope_body(const pass *a, int64_t chunk) {
  const logit_shape *s = &a->j.shape;
  int64_t p = chunk * LOSS_CHUNK, all = s->n * s->px, end = p + LOSS_CHUNK < all ? p + LOSS_CHUNK : all;
  bool acc = a->j.acc;
  softmax_work w;
  for (int n; p < end; p += n) {
    loss_block_at(&a->j, p, end, &w.b);
    n = w.b.n;
    memcpy(w.top, a->top + p, (size_t)n * sizeof *w.top);
    memcpy(w.inv, a->inv + p, (size_t)n * sizeof *w.inv);
    if (softmax_has_tile(s)) {
      softmax_to_tile(s->classes, &w);
      slope_block(a->slope, s->classes, LOSS_BLOCK, 1, &w, w.g, false);
      softmax_from_tile(&w, n, s->classes, w.b.g, acc);
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
static double sum_up(const pass *a, const overlap_form *form, int64_t chunks) {
  int64_t classes = a->j.shape.classes;
  double loss = 0, steep, scale = a->j.weight / (double)classes * (double)a->j.step->loss_scale;
  for (int64_t c = 0; c < classes; c++) {
    overlap_sums all = {0, 0, 0};
    for (int64_t i = 0; i < chunks; i++) {
      const overlap_sums *s = &a->sums[i * classes + c];
      all.both += s->both, all.said += s->said, all.truth += s->truth;
    }
    loss += overlap_class(&all, form, &a->slope[c]);
  }
  loss = overlap_power(loss / (double)classes, form, &steep);
  for (int64_t c = 0; c < classes; c++) a->slope[c].own *= scale * steep, a->slope[c].all *= scale * steep;
  return a->j.weight * loss;
}

static int run(sp_ctx *ctx, const overlap_params *p, const sp_io *io, const overlap_form *form) {
  pass a;
  label_sum all;
  loss_job_of(&a.j, io, &p->l);
  int64_t chunks = loss_chunks(&a.j.shape), classes = a.j.shape.classes;
  a.labels = io->scratch;
  a.sums = (overlap_sums *)(a.labels + chunks);
  a.slope = (overlap_slope *)(a.sums + chunks * classes);
  a.top = (float *)(a.slope + classes);
  a.inv = a.top + a.j.shape.n * a.j.shape.px;
  int rc = loss_count(ctx, &a.j, NULL, a.labels, &all);
  a.run = sum_choose();
  if (!rc) rc = par_run(ctx, chunks, run_chunk, &a);
  if (rc) return rc;
  loss_result(&a.j, &all, sum_up(&a, form, chunks));
  if (a.j.total) *a.j.total = all.counted ? 1 : 0; /* each batch has a score of its own */
  a.run = slope_choose();
  return a.j.g ? par_run(ctx, chunks, run_chunk, &a) : SP_OK;
}

#define TYPE(id, words) OVERLAPS_TYPE(id, words, "cpu", 0, run)
OVERLAPS_STAGES(TYPE)
static const sp_stage_type *const stages[] = {OVERLAPS_STAGES(OVERLAPS_POINTER) NULL};

SP_PLUGIN("overlaps", "Losses of overlaps", stages);
