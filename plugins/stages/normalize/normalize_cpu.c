/* SPDX-License-Identifier: MIT
 * normalize_cpu.c - the stage `normalize` on the CPU. */
#include "../../kits/aug/cpu.h"
#include "normalize.h"

#define PATTERN 512 /* elements, and up to a pixel more, for which the terms of channels-last images lie ready */

typedef struct norm_call {
  const norm_terms *terms;
  const float *mean, *std; /* of `n` elements of a channels-last row, whole pixels; n 0: all elements have the same */
  int64_t n;
} norm_call;

/* One mean and std for all. */
#define SAME(type, value)                                                                                            \
  static inline __attribute__((always_inline)) void same_##type##_body(float *restrict y, const type *x, float mean, \
                                                                       float std, float by, int64_t n) {             \
    (void)by;                                                                                                        \
    for (int64_t i = 0; i < n; i++) y[i] = (value - mean) / std;                                                     \
  }
/* Their own for each. */
#define EACH(type, value)                                                                           \
  static inline __attribute__((always_inline)) void each_##type##_body(                             \
      float *restrict y, const type *x, const float *mean, const float *std, float by, int64_t n) { \
    (void)by;                                                                                       \
    for (int64_t i = 0; i < n; i++) y[i] = (value - mean[i]) / std[i];                              \
  }
SAME(float, x[i])
SAME(uint8_t, (float)x[i] * by)
EACH(float, x[i])
EACH(uint8_t, (float)x[i] * by)

typedef struct norm_code {
  void (*same_f)(float *restrict y, const float *x, float mean, float std, float by, int64_t n);
  void (*same_b)(float *restrict y, const uint8_t *x, float mean, float std, float by, int64_t n);
  void (*each_f)(float *restrict y, const float *x, const float *mean, const float *std, float by, int64_t n);
  void (*each_b)(float *restrict y, const uint8_t *x, const float *mean, const float *std, float by, int64_t n);
} norm_code;

#define CODE(suffix, how)                                                                                             \
  how static void same_f_##suffix(float *restrict y, const float *x, float mean, float std, float by, int64_t n) {    \
    same_float_body(y, x, mean, std, by, n);                                                                          \
  }                                                                                                                   \
  how static void same_b_##suffix(float *restrict y, const uint8_t *x, float mean, float std, float by, int64_t n) {  \
    same_uint8_t_body(y, x, mean, std, by, n);                                                                        \
  }                                                                                                                   \
  how static void each_f_##suffix(float *restrict y, const float *x, const float *mean, const float *std, float by,   \
                                  int64_t n) {                                                                        \
    each_float_body(y, x, mean, std, by, n);                                                                          \
  }                                                                                                                   \
  how static void each_b_##suffix(float *restrict y, const uint8_t *x, const float *mean, const float *std, float by, \
                                  int64_t n) {                                                                        \
    each_uint8_t_body(y, x, mean, std, by, n);                                                                        \
  }                                                                                                                   \
  static const norm_code code_##suffix = {same_f_##suffix, same_b_##suffix, each_f_##suffix, each_b_##suffix};

CODE(base, )
#if defined(__x86_64__)
CODE(avx2, __attribute__((target("avx2"))))
#endif

static const norm_code *code_of(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return &code_avx2;
#endif
  return &code_base;
}

static int rows(const void *arg, const aug_part *part, int worker) {
  const norm_call *c = arg;
  const norm_terms *t = c->terms;
  const aug_job *j = part->job;
  const norm_code *code = code_of();
  int64_t n = (int64_t)(part->to - part->from) * j->w * j->pix;
  (void)worker;
  for (int64_t plane = 0; plane < j->planes; plane++) {
    const void *x = aug_in_row(j, part->sample, plane, part->from, aug_element(j->dtype));
    const uint8_t *b = x;
    const float *f = x;
    float *y = aug_out_row(j, part->sample, plane, part->from, sizeof *y);
    if (!c->n || j->pix == 1) {
      int64_t of = t->n > 1 ? plane : 0;
      if (j->dtype == SP_U8) code->same_b(y, b, t->mean[of], t->std[of], t->by, n);
      else code->same_f(y, f, t->mean[of], t->std[of], t->by, n);
      continue;
    }
    for (int64_t i = 0; i < n; i += c->n) {
      int64_t m = n - i < c->n ? n - i : c->n;
      if (j->dtype == SP_U8) code->each_b(y + i, b + i, c->mean, c->std, t->by, m);
      else code->each_f(y + i, f + i, c->mean, c->std, t->by, m);
    }
  }
  return SP_OK;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = norm_plan(ctx, self, pl);
  pl->scratch_bytes = rc ? 0 : 2 * (PATTERN + NORM_MAX) * sizeof(float);
  return rc;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  norm_terms t;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  norm_terms_of(self, &t);
  float *mean = io->scratch, *std = mean + PATTERN + NORM_MAX;
  /* all images have as many channels where there is more than one mean or std */
  norm_call c = {&t, mean, std, t.n > 1 ? (PATTERN + t.n - 1) / t.n * t.n : 0};
  for (int64_t i = 0; i < c.n; i++) {
    mean[i] = t.mean[i % t.n];
    std[i] = t.std[i % t.n];
  }
  return aug_rows(ctx, &jobs, rows, &c);
}

AUG_CPU_STAGE(norm, "normalize", NORM_DOC, 0, .create = stateless_create, .destroy = stateless_destroy, .plan = plan,
              .forward = forward);
