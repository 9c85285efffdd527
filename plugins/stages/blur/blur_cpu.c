/* SPDX-License-Identifier: MIT
 * blur_cpu.c - the stage `blur` on the CPU.
 *
 * Rows are blurred along into a ring of as many as the kernel is high, and each output row is the sum over the ring.
 * A row is worked on in stripes, so that a ring stays in the cache. Both sums are the same loop: taps lie a pixel, or a
 * row, apart.
 */
#include "../../kits/aug/cpu.h"
#include "blur_cpu.h"

#include <string.h>

#define STRIPE 1024        /* elements */
#define RING (STRIPE + 32) /* floats from row to row of a ring: a power of two would use a small part of the cache */

typedef struct blur_call {
  const blur_params *p;
  const float *sigmas;  /* [n] */
  const float *weights; /* [n][rx + 1 + ry + 1] */
  float *work;          /* [workers][each] */
  size_t each, pad;     /* floats: of a worker, of its stripe with what reaches over its ends */
} blur_call;

/* Rounds to the nearest, half to even, as rintf does for numbers of this size, and is a plain addition. */
static inline __attribute__((always_inline)) void bytes_body(uint8_t *restrict y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] + 12582912.0f;
    y[i] = (uint8_t)(int32_t)(v - 12582912.0f);
  }
}

static inline __attribute__((always_inline)) void floats_body(float *restrict y, const uint8_t *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
}

typedef struct blur_code {
  void (*sum)(float *restrict y, const float *const *t, const float *w, int r, int64_t n);
  void (*bytes)(uint8_t *restrict y, const float *x, int64_t n);
  void (*floats)(float *restrict y, const uint8_t *x, int64_t n);
} blur_code;

/* No fused operations on any processor: the same bits on all. */
#define CODE(suffix, how)                                                                                    \
  how static void sum_##suffix(float *restrict y, const float *const *t, const float *w, int r, int64_t n) { \
    blur_sum_body(y, t, w, r, n);                                                                            \
  }                                                                                                          \
  how static void bytes_##suffix(uint8_t *restrict y, const float *x, int64_t n) { bytes_body(y, x, n); }    \
  how static void floats_##suffix(float *restrict y, const uint8_t *x, int64_t n) { floats_body(y, x, n); }  \
  static const blur_code code_##suffix = {sum_##suffix, bytes_##suffix, floats_##suffix};

CODE(base, )
#if defined(__x86_64__)
CODE(avx2, __attribute__((target("avx2"))))
#endif

static const blur_code *code_of(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return &code_avx2;
#endif
  return &code_base;
}

/* Elements from .. to of a row as floats; those outside of it are mirrored. */
static void take(const blur_code *code, const aug_job *j, float *y, const void *row, int64_t from, int64_t to) {
  int64_t n = (int64_t)j->w * j->pix, first = from < 0 ? 0 : from, last = to > n ? n : to, pix = j->pix;
  const uint8_t *bytes = row;
  const float *floats = row;
  for (int64_t e = from; e < to; e++) {
    if (e == first) e = last;
    if (e >= to) break;
    int64_t pixel = e < 0 ? -((pix - 1 - e) / pix) : e / pix, at = blur_mirror(pixel, j->w) * pix + (e - pixel * pix);
    y[e - from] = j->dtype == SP_U8 ? (float)bytes[at] : floats[at];
  }
  if (j->dtype == SP_U8) code->floats(y + (first - from), bytes + first, last - first);
  else memcpy(y + (first - from), floats + first, (size_t)(last - first) * sizeof *y);
}

typedef struct stripe {
  const blur_code *code;
  const aug_job *job;
  const float *wx, *wy;
  int rx, ry;
  int64_t from, n; /* elements of a row */
  float *pad, *ring, *row;
} stripe;

/* One row, blurred along. */
static void along(const stripe *s, float *y, const void *row) {
  const aug_job *j = s->job;
  int64_t reach = (int64_t)s->rx * j->pix, from = s->from - reach, to = s->from + s->n + reach;
  const float *x = row, *taps[BLUR_MAX];
  if (j->dtype == SP_F32 && from >= 0 && to <= (int64_t)j->w * j->pix) {
    x += from;
  } else {
    take(s->code, j, s->pad, row, from, to);
    x = s->pad;
  }
  for (int k = 0; k <= 2 * s->rx; k++) taps[k] = x + (int64_t)k * j->pix;
  s->code->sum(y, taps, s->wx, s->rx, s->n);
}

static void blur_stripe(const stripe *s, const aug_part *part, int64_t plane) {
  const aug_job *j = s->job;
  size_t bytes = aug_element(j->dtype);
  int high = 2 * s->ry + 1, slot = 0;
  const float *taps[BLUR_MAX];
  for (int64_t y = (int64_t)part->from - s->ry; y < (int64_t)part->to + s->ry; y++) {
    along(s, s->ring + (size_t)slot * RING, aug_in_row(j, part->sample, plane, blur_mirror(y, j->h), bytes));
    slot = slot + 1 < high ? slot + 1 : 0; /* the oldest row */
    if (y < (int64_t)part->from + s->ry) continue;
    for (int k = 0; k < high; k++) taps[k] = s->ring + (size_t)((slot + k) % high) * RING;
    void *out = aug_out_row(j, part->sample, plane, y - s->ry, bytes);
    if (j->dtype == SP_F32) {
      s->code->sum((float *)out + s->from, taps, s->wy, s->ry, s->n);
    } else {
      s->code->sum(s->row, taps, s->wy, s->ry, s->n);
      s->code->bytes((uint8_t *)out + s->from, s->row, s->n);
    }
  }
}

static int rows(const void *arg, const aug_part *part, int worker) {
  const blur_call *c = arg;
  const aug_job *j = part->job;
  int64_t n = (int64_t)j->w * j->pix;
  float *work = c->work + (size_t)worker * c->each;
  stripe s = {.code = code_of(), .job = j, .rx = blur_rx(c->p), .ry = blur_ry(c->p)};
  s.wx = c->weights + part->sample * (s.rx + s.ry + 2);
  s.wy = s.wx + s.rx + 1;
  s.pad = work;
  s.ring = work + c->pad;
  s.row = s.ring + (size_t)(2 * s.ry + 1) * RING;
  for (int64_t plane = 0; plane < j->planes; plane++) {
    if (j->mask || !(c->sigmas[part->sample] > 0)) {
      size_t bytes = aug_element(j->dtype);
      memcpy(aug_out_row(j, part->sample, plane, part->from, bytes),
             aug_in_row(j, part->sample, plane, part->from, bytes), (size_t)((part->to - part->from) * n) * bytes);
      continue;
    }
    for (s.from = 0; s.from < n; s.from += STRIPE) {
      s.n = n - s.from < STRIPE ? n - s.from : STRIPE;
      blur_stripe(&s, part, plane);
    }
  }
  return SP_OK;
}

/* What a worker needs for rows whose pixels have `pix` elements at most: a multiple of 64 bytes each. */
static void measure(blur_call *c, int64_t pix) {
  c->pad = (STRIPE + (size_t)(2 * blur_rx(c->p)) * (size_t)pix + 15) / 16 * 16;
  c->each = c->pad + (size_t)(2 * blur_ry(c->p) + 2) * RING;
}

/* Where the workers' part of the scratch begins, in floats. */
static size_t work_at(const blur_params *p, int64_t n) {
  return ((size_t)n * (size_t)(1 + blur_rx(p) + 1 + blur_ry(p) + 1) + 15) / 16 * 16;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  blur_call c = {.p = self};
  int64_t pix = 1;
  int rc = blur_plan(ctx, self, pl);
  if (rc) return rc;
  for (uint32_t i = 0; i < pl->in[AUG_IMAGES].n; i++) {
    const sp_spec *s = &pl->in[AUG_IMAGES].spec[i];
    if (s->order == SP_CHANNELS_LAST && s->shape[1] > pix) pix = s->shape[1];
  }
  measure(&c, pix);
  size_t floats = work_at(c.p, pl->in[AUG_IMAGES].spec->shape[0]) + (size_t)(par ? par->threads(ctx) : 1) * c.each;
  pl->scratch_bytes = floats * sizeof(float);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const blur_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const float *given = aug_given(ctx, io, "sigmas", &rc);
  if (rc) return rc;
  float *sigmas = io->scratch, *weights = sigmas + jobs.n;
  int rx = blur_rx(p), ry = blur_ry(p);
  int64_t *status = io->out[AUG_STATUS].t->data, pix = 1;
  aug_dice dice = aug_dice_of(io, &p->draws);
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < jobs.n; i++) {
    sigmas[i] = given ? given[i] : blur_draw(&dice, i, blur_lo(p), blur_hi(p));
    aug_note(status, blur_bad(sigmas[i]), io->ids ? (int64_t)io->ids[i] : i, 0, 0);
  }
  if (io->out[AUG_DRAWN].t->data) memcpy(io->out[AUG_DRAWN].t->data, sigmas, (size_t)jobs.n * sizeof *sigmas);
  for (int64_t i = 0; i < jobs.n; i++) {
    float *w = weights + i * (rx + ry + 2);
    if (blur_bad(sigmas[i])) sigmas[i] = 0; /* the status tells */
    if (sigmas[i] == 0) continue;
    blur_weights_of(w, rx, sigmas[i]);
    blur_weights_of(w + rx + 1, ry, sigmas[i]);
  }
  for (int32_t i = 0; i < jobs.count; i++) pix = jobs.job[i].pix > pix ? jobs.job[i].pix : pix;
  blur_call c = {.p = p, .sigmas = sigmas, .weights = weights, .work = sigmas + work_at(p, jobs.n)};
  measure(&c, pix);
  return aug_rows(ctx, &jobs, rows, &c);
}

AUG_CPU_STAGE(blur, "blur", BLUR_DOC, SP_STAGE_STOCHASTIC, .status_doc = BLUR_STATUS_DOC, .create = stateless_create,
              .destroy = stateless_destroy, .plan = plan, .forward = forward);
