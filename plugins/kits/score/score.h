/* SPDX-License-Identifier: MIT
 * score.h - probabilities of logits, with the same bits on every device, and the targets they are compared with;
 * shared by the stages that count scores. Needs -ffp-contract=off. */
#ifndef SP_PLUGINS_SCORE_H
#define SP_PLUGINS_SCORE_H

#include <string.h>

#include "../labels/labels.h"
#include "../rounded.h"

#ifdef __CUDACC__
#define SCORE_FN static __host__ __device__ __forceinline__
#else
#define SCORE_FN static inline __attribute__((always_inline))
#endif

/* exp(d) for d <= 0 within 2 ulp; 0 below -700; NaN stays. 2^k * exp(r), |r| <= ln(2)/2, by the series to r^13. Adding
 * 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits. */
SCORE_FN double score_exp(double d) {
  const double round = 6755399441055744.0;
  double z = d < -700 ? -700 : d;
  double t = rounded_add(rounded_mul(z, 1.4426950408889634074), round), k = rounded_add(t, -round);
  double r = rounded_add(rounded_add(z, rounded_mul(k, -6.93147180369123816490e-01)),
                         rounded_mul(k, -1.90821492927058770002e-10));
  double q = 1 / 6227020800.0;
  q = rounded_add(rounded_mul(q, r), 1 / 479001600.0);
  q = rounded_add(rounded_mul(q, r), 1 / 39916800.0);
  q = rounded_add(rounded_mul(q, r), 1 / 3628800.0);
  q = rounded_add(rounded_mul(q, r), 1 / 362880.0);
  q = rounded_add(rounded_mul(q, r), 1 / 40320.0);
  q = rounded_add(rounded_mul(q, r), 1 / 5040.0);
  q = rounded_add(rounded_mul(q, r), 1 / 720.0);
  q = rounded_add(rounded_mul(q, r), 1 / 120.0);
  q = rounded_add(rounded_mul(q, r), 1 / 24.0);
  q = rounded_add(rounded_mul(q, r), 1 / 6.0);
  q = rounded_add(rounded_mul(q, r), 0.5);
  q = rounded_add(rounded_mul(q, r), 1);
  double y = rounded_add(rounded_mul(q, r), 1);
  uint64_t yi, ti;
  memcpy(&yi, &y, 8);
  memcpy(&ti, &t, 8);
  yi += ti << 52;
  memcpy(&y, &yi, 8);
  return d != d ? d : d < -700 ? 0 : y;
}

/* A probability: own / all, where rest is all - own. */
typedef struct score {
  double own, rest, all;
} score;

SCORE_FN score score_sigmoid(float x) {
  double v = (double)x, e = score_exp(v > 0 ? -v : v);
  score s = {v > 0 ? 1 : e, v > 0 ? e : 1, rounded_add(1, e)};
  return s;
}

/* max: the largest logit; all: the sum over the classes, in their order, of exp(logit - max). */
SCORE_FN score score_softmax(float x, float max, double all) {
  score s;
  s.own = score_exp((double)x - (double)max);
  s.all = all;
  s.rest = rounded_add(all, -s.own);
  return s;
}

SCORE_FN double score_probability(score s) { return s.own / s.all; }

/* What is compared with the logits. */
enum { SCORE_CLASSES, SCORE_BINARY, SCORE_FLOATS }; /* labels of C classes; of 0 and 1, C is 1; N x C x ... numbers */

typedef struct score_job {
  logit_shape shape;
  int kind, target_rows; /* target_rows: floats lie as rows of logits do */
  const float *x;
  const void *targets;
  int dtype;
  int64_t ignore;
  const uint64_t *ids; /* NULL: samples are counted */
} score_job;

enum { SCORE_NO, SCORE_YES, SCORE_UNKNOWN, SCORE_BAD };

/* Whether a position is of the class. */
SCORE_FN int score_truth(const score_job *j, int64_t position, int64_t c) {
  if (j->kind == SCORE_FLOATS) {
    float t = ((const float *)j->targets)[logit_index(&j->shape, j->target_rows, position, c)];
    return t > 1 ? SCORE_BAD : t >= 0.5f ? SCORE_YES : t >= 0 ? SCORE_NO : SCORE_UNKNOWN; /* below 0, and NaN */
  }
  int64_t y = label_at(j->targets, j->dtype, position);
  if (y == j->ignore) return SCORE_UNKNOWN;
  if (y < 0 || y >= (j->kind == SCORE_BINARY ? 2 : j->shape.classes)) return SCORE_BAD;
  return y == (j->kind == SCORE_BINARY ? 1 : c) ? SCORE_YES : SCORE_NO;
}

/* The status of the first bad target, which lies at `bad` (position * classes + class); -1: there is none. */
SCORE_FN void score_status(const score_job *j, int64_t bad, int64_t *status) {
  int64_t position = bad < 0 ? 0 : bad / j->shape.classes, sample = position / j->shape.px;
  status[0] = status[1] = status[2] = status[3] = 0;
  if (bad < 0) return;
  status[0] = j->kind == SCORE_FLOATS ? SP_E_RANGE : SP_E_DATA;
  status[1] = j->ids ? (int64_t)j->ids[sample] : sample;
  status[2] = j->kind == SCORE_FLOATS ? bad % j->shape.classes : label_at(j->targets, j->dtype, position);
  status[3] = j->kind == SCORE_BINARY ? 1 : j->shape.classes - 1;
}

#define SCORE_STATUS_DOC                                \
  "sample %sample: label %value is outside 0..%limit\n" \
  "sample %sample: the target of class %value is above 1; 0 and 1 are meant, below 0 or NaN what is not known"

#define SCORE_PORT_LOGITS                                                           \
  {                                                                                 \
    .name = "logits", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_NOGRAD, \
    .doc = "N x C x ..., row-major or channels-last"                                \
  }
#define SCORE_PORT_TARGETS                                                                                            \
  {                                                                                                                   \
    .name = "targets", .dtypes = LABEL_DTYPES | SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_NOGRAD,                   \
    .doc =                                                                                                            \
        "N x ... class numbers, 0 and 1 where C is 1, or float32 in the shape of the logits: 1 or 0 for each class, " \
        "below 0 or NaN where it is not known"                                                                        \
  }
#define SCORE_PORT_STATUS                                                                           \
  {                                                                                                 \
    .name = "status", .dtypes = SP_DT(SP_I64), .ndim = 1, .flags = SP_PORT_STATUS | SP_PORT_NOGRAD, \
    .doc = "the first target out of range"                                                          \
  }

#ifndef __cplusplus
static inline int score_known_order(const sp_spec *s) {
  return s->order == SP_ROW_MAJOR || s->order == SP_CHANNELS_LAST;
}

/* The shape, or a failure. */
static inline int score_check(sp_ctx *ctx, const sp_spec *x, const sp_spec *y) {
  if (y->dtype != SP_F32) return labels_check(ctx, x, y);
  int fits = x->ndim == y->ndim;
  if (x->ndim < 2) return ctx->host->fail(ctx, SP_E_SHAPE, "logits have %d dimensions, N x C x ... is wanted", x->ndim);
  for (int d = 0; d < x->ndim && fits; d++) fits = x->shape[d] == y->shape[d];
  if (!fits) return ctx->host->fail(ctx, SP_E_SHAPE, "float targets have another shape than the logits");
  if (!score_known_order(x) || !score_known_order(y))
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED,
                           "logits or targets are neither row-major nor channels-last in memory");
  return SP_OK;
}

static inline int score_kind(const sp_spec *x, const sp_spec *y) {
  return y->dtype == SP_F32 ? SCORE_FLOATS : x->shape[1] == 1 ? SCORE_BINARY : SCORE_CLASSES;
}

static inline void score_job_of(score_job *j, const sp_io *io, int64_t ignore) {
  const sp_tensor *x = &io->in[0].t[0], *y = &io->in[1].t[0];
  *j = (score_job){.kind = score_kind(&x->spec, &y->spec),
                   .x = x->data,
                   .targets = y->data,
                   .dtype = y->spec.dtype,
                   .ignore = ignore,
                   .ids = io->ids};
  logit_shape_of(&j->shape, &x->spec);
  j->target_rows = j->shape.px == 1 || y->spec.order == SP_CHANNELS_LAST;
}

enum { SCORE_BLOCK = 64 }; /* positions handled side by side */

/* Of n positions from p on, which are of one sample where logits are planes: the largest logit, the first class that
 * has it, and the sum of exp(logit - largest). */
static inline void score_block(const score_job *j, int64_t p, int n, float *max, int32_t *best, double *all) {
  const logit_shape *s = &j->shape;
  int64_t step = s->rows ? s->classes : 1;
  for (int i = 0; i < n; i++) max[i] = j->x[logit_index(s, s->rows, p, 0) + i * step], best[i] = 0, all[i] = 0;
  for (int32_t c = 1; c < s->classes; c++) {
    const float *x = j->x + logit_index(s, s->rows, p, c);
    for (int i = 0; i < n; i++)
      if (x[i * step] > max[i]) max[i] = x[i * step], best[i] = c;
  }
  for (int64_t c = 0; c < s->classes; c++) {
    const float *x = j->x + logit_index(s, s->rows, p, c);
    for (int i = 0; i < n; i++) all[i] += score_exp((double)x[i * step] - (double)max[i]);
  }
}

/* How many positions from p on, up to `end`, are one block. */
static inline int score_block_size(const logit_shape *s, int64_t p, int64_t end) {
  int64_t left = end - p;
  if (!s->rows && s->px - p % s->px < left) left = s->px - p % s->px;
  return left < SCORE_BLOCK ? (int)left : SCORE_BLOCK;
}
#endif

#endif
