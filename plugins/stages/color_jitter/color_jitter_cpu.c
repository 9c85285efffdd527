/* SPDX-License-Identifier: MIT
 * color_jitter_cpu.c - the stage `color_jitter` on the CPU: pixels are worked on in blocks of one array a channel,
 * whatever their type and order. Samples with contrast take two passes: what comes before it,
 * with sums of the rows, and the rest.
 */
#include "../../kits/aug/cpu.h"
#include "color_jitter.h"
#include "pixel.h"

#include <string.h>

#define VEC AUG_VEC

enum { BLOCK = 256, LANES = 8 };

typedef struct block {
  _Alignas(64) float c[3][BLOCK];
} block;

/* ---- a block in and out ---- */
#define MOVES(type)                                                                    \
  VEC static void load_##type(float *restrict y, const type *restrict x, int n) {      \
    for (int i = 0; i < n; i++) y[i] = (float)x[i];                                    \
  }                                                                                    \
  VEC static void load_rgb_##type(block *restrict y, const type *restrict x, int n) {  \
    for (int i = 0; i < n; i++) {                                                      \
      y->c[0][i] = (float)x[3 * i];                                                    \
      y->c[1][i] = (float)x[3 * i + 1];                                                \
      y->c[2][i] = (float)x[3 * i + 2];                                                \
    }                                                                                  \
  }                                                                                    \
  VEC static void store_rgb_##type(type *restrict y, const block *restrict x, int n) { \
    for (int i = 0; i < n; i++) {                                                      \
      y[3 * i] = (type)x->c[0][i];                                                     \
      y[3 * i + 1] = (type)x->c[1][i];                                                 \
      y[3 * i + 2] = (type)x->c[2][i];                                                 \
    }                                                                                  \
  }
MOVES(uint8_t)
MOVES(float)
VEC static void store_uint8_t(uint8_t *restrict y, const float *restrict x, int n) {
  for (int i = 0; i < n; i++) y[i] = (uint8_t)(int32_t)x[i];
}

/* ---- the operations on a block ---- */
#define OPERATIONS(name, bytes, wide)                                                                                 \
  VEC static void blend_##name(float *restrict c, int n, float by, float other, float max) {                          \
    for (int i = 0; i < n; i++) c[i] = pixel_blend(c[i], by, other, bytes, max);                                      \
  }                                                                                                                   \
  VEC static void saturate_##name(float *restrict r, float *restrict g, float *restrict b, int n, float by,           \
                                  float max) {                                                                        \
    for (int i = 0; i < n; i++) {                                                                                     \
      pixel v = {r[i], g[i], b[i]};                                                                                   \
      v = pixel_saturate(v, by, bytes, max);                                                                          \
      r[i] = v.r, g[i] = v.g, b[i] = v.b;                                                                             \
    }                                                                                                                 \
  }                                                                                                                   \
  VEC static void hue_##name(float *restrict r, float *restrict g, float *restrict b, int n, float by, float white) { \
    for (int i = 0; i < n; i++) {                                                                                     \
      pixel v = {r[i], g[i], b[i]};                                                                                   \
      v = pixel_hue(v, by, bytes, wide, white);                                                                       \
      r[i] = v.r, g[i] = v.g, b[i] = v.b;                                                                             \
    }                                                                                                                 \
  }                                                                                                                   \
  VEC static void grey_##name(const float *restrict r, const float *restrict g, const float *restrict b, int n,       \
                              float *restrict y) {                                                                    \
    for (int i = 0; i < n; i++) y[i] = pixel_grey(r[i], g[i], b[i], bytes);                                           \
  }
OPERATIONS(bytes, 1, 1)
OPERATIONS(floats, 0, 0)
OPERATIONS(wide, 0, 1)

typedef struct operations {
  void (*blend)(float *restrict c, int n, float by, float other, float max);
  void (*saturate)(float *restrict r, float *restrict g, float *restrict b, int n, float by, float max);
  void (*hue)(float *restrict r, float *restrict g, float *restrict b, int n, float by, float white);
  void (*grey)(const float *restrict r, const float *restrict g, const float *restrict b, int n, float *restrict y);
} operations;
static const operations on_bytes = {blend_bytes, saturate_bytes, hue_bytes, grey_bytes},
                        on_floats = {blend_floats, saturate_floats, hue_floats, grey_floats},
                        on_wide = {blend_wide, saturate_wide, hue_wide, grey_wide};

/* Element i goes to sum i % LANES, so that the order is the same for any width of vectors. */
VEC static void add_up(double *restrict sums, const float *restrict v, int n) {
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++) sums[l] += (double)v[i + l];
  for (int l = 0; i < n; i++, l++) sums[l] += (double)v[i];
}

/* ---- a row ---- */
typedef struct jitter_call {
  const aug_jobs *jobs;
  const float *factors; /* [n][JITTER_COLUMNS] */
  double *sums;         /* [images][n][h] */
  float *means;         /* [images][n] */
  float max;            /* of floats */
} jitter_call;

/* One tensor of one sample. */
typedef struct picture {
  const aug_job *job;
  const operations *ops;
  jitter_factors factors;
  uint32_t steps;
  int channels, mean_at;
  float max, mean;
} picture;

static picture picture_of(const jitter_call *c, const aug_part *part) {
  const aug_job *j = part->job;
  picture p = {.job = j, .channels = (int)(j->planes * j->pix), .max = j->dtype == SP_U8 ? 255.0f : c->max};
  jitter_take(&c->factors[part->sample * JITTER_COLUMNS], &p.factors);
  p.ops = j->dtype == SP_U8 ? &on_bytes : p.max > 1 ? &on_wide : &on_floats;
  p.steps = j->mask ? JITTER_END : jitter_steps(&p.factors, p.channels);
  p.mean_at = j->mask ? -1 : jitter_mean_at(p.steps);
  return p;
}

static void load(const picture *p, block *b, int bytes, const void *const row[3], int64_t at, int n) {
  if (p->job->pix == 3) {
    if (bytes) load_rgb_uint8_t(b, (const uint8_t *)row[0] + 3 * at, n);
    else load_rgb_float(b, (const float *)row[0] + 3 * at, n);
    return;
  }
  for (int c = 0; c < p->channels; c++)
    if (bytes) load_uint8_t(b->c[c], (const uint8_t *)row[c] + at, n);
    else load_float(b->c[c], (const float *)row[c] + at, n);
}

static void store(const picture *p, const block *b, int bytes, void *const row[3], int64_t at, int n) {
  if (p->job->pix == 3) {
    if (bytes) store_rgb_uint8_t((uint8_t *)row[0] + 3 * at, b, n);
    else store_rgb_float((float *)row[0] + 3 * at, b, n);
    return;
  }
  for (int c = 0; c < p->channels; c++)
    if (bytes) store_uint8_t((uint8_t *)row[c] + at, b->c[c], n);
    else memcpy((float *)row[c] + at, b->c[c], (size_t)n * sizeof(float));
}

static void work(const picture *p, block *b, int n, int from, int to) {
  for (int i = from; i < to && jitter_op(p->steps, i) != JITTER_END; i++) {
    int op = jitter_op(p->steps, i);
    float by = p->factors.by[op];
    if (op == JITTER_SATURATION) p->ops->saturate(b->c[0], b->c[1], b->c[2], n, by, p->max);
    else if (op == JITTER_HUE) p->ops->hue(b->c[0], b->c[1], b->c[2], n, by, 1.0f);
    else
      for (int c = 0; c < p->channels; c++)
        p->ops->blend(b->c[c], n, by, op == JITTER_CONTRAST ? (1.0f - by) * p->mean : 0.0f, p->max);
  }
}

/* Steps from .. to of row y, from the input, or where `again` is set from the output. `sum`: NULL, or where the sum of
 * the grey row goes. */
static void row(const picture *p, int64_t sample, int64_t y, int from, int to, int again, double *sum) {
  const aug_job *j = p->job;
  int bytes = j->dtype == SP_U8;
  const void *in[3];
  void *out[3];
  double sums[LANES] = {0};
  block b;
  float grey[BLOCK];
  for (int64_t c = 0; c < j->planes; c++) {
    out[c] = aug_out_row(j, sample, c, y, aug_element(j->dtype));
    in[c] = again ? out[c] : aug_in_row(j, sample, c, y, aug_element(j->dtype));
  }
  for (int64_t at = 0; at < j->w; at += BLOCK) {
    int n = (int)(j->w - at < BLOCK ? j->w - at : BLOCK);
    load(p, &b, bytes, in, at, n);
    work(p, &b, n, from, to);
    if (to > from) store(p, &b, bytes, out, at, n);
    if (!sum) continue;
    if (p->channels == 3) p->ops->grey(b.c[0], b.c[1], b.c[2], n, grey);
    add_up(sums, p->channels == 3 ? grey : b.c[0], n);
  }
  if (!sum) return;
  *sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* ---- passes ---- */
static int before(const void *arg, const aug_part *part, int worker) {
  const jitter_call *c = arg;
  picture p = picture_of(c, part);
  int64_t at = ((part->job - c->jobs->job) * c->jobs->n + part->sample) * part->job->h;
  (void)worker;
  for (int64_t y = part->from; y < part->to && p.mean_at >= 0; y++)
    row(&p, part->sample, y, 0, p.mean_at, 0, &c->sums[at + y]);
  return SP_OK;
}

static int rows(const void *arg, const aug_part *part, int worker) {
  const jitter_call *c = arg;
  const aug_job *j = part->job;
  picture p = picture_of(c, part);
  size_t bytes = aug_element(j->dtype);
  (void)worker;
  if (p.mean_at >= 0) p.mean = c->means[(j - c->jobs->job) * c->jobs->n + part->sample];
  if (jitter_op(p.steps, 0) != JITTER_END) {
    for (int64_t y = part->from; y < part->to; y++)
      row(&p, part->sample, y, p.mean_at > 0 ? p.mean_at : 0, JITTER_OPS, p.mean_at > 0, NULL);
    return SP_OK;
  }
  for (int64_t plane = 0; plane < j->planes; plane++)
    memcpy(aug_out_row(j, part->sample, plane, part->from, bytes),
           aug_in_row(j, part->sample, plane, part->from, bytes),
           (size_t)((part->to - part->from) * j->w * j->pix) * bytes);
  return SP_OK;
}

static void take_means(const jitter_call *c, const aug_jobs *images) {
  int64_t h = images->job[0].h, pixels = h * images->job[0].w;
  for (int64_t i = 0; i < images->count * images->n; i++) {
    aug_part part = {&images->job[i / images->n], i % images->n, 0, 0};
    double sum = 0;
    if (picture_of(c, &part).mean_at < 0) continue;
    for (int64_t y = 0; y < h; y++) sum += c->sums[i * h + y];
    c->means[i] = (float)(sum / (double)pixels);
  }
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const jitter_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const float *given = aug_given(ctx, io, "factors", &rc);
  if (rc) return rc;
  float *factors = io->scratch;
  int64_t *status = io->out[AUG_STATUS].t->data, images = io->in[AUG_IMAGES].n;
  aug_dice dice = aug_dice_of(io, &p->draws);
  jitter_ranges ranges;
  jitter_ranges_of(p, &ranges);
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < jobs.n; i++) {
    float *to = &factors[i * JITTER_COLUMNS];
    jitter_factors f;
    if (given) {
      memcpy(to, &given[i * JITTER_COLUMNS], JITTER_COLUMNS * sizeof *to);
      int bad = jitter_bad(to);
      aug_note(status, bad, io->ids ? (int64_t)io->ids[i] : i, bad, JITTER_COLUMNS);
    } else {
      jitter_draw(&dice, i, &ranges, &f);
      jitter_give(&f, to);
    }
  }
  size_t drawn = (size_t)jobs.n * JITTER_COLUMNS;
  if (io->out[AUG_DRAWN].t->data) memcpy(io->out[AUG_DRAWN].t->data, factors, drawn * sizeof *factors);
  double *sums = (double *)(void *)(factors + drawn);
  jitter_call c = {&jobs, factors, sums, (float *)(sums + images * jobs.n * jobs.job[0].h), (float)p->max};
  if (jitter_means(p, given)) {
    aug_jobs some = jobs;
    some.count = (int32_t)images;
    c.jobs = &some;
    if ((rc = aug_rows(ctx, &some, before, &c))) return rc;
    take_means(&c, &some);
    c.jobs = &jobs;
  }
  return aug_rows(ctx, &jobs, rows, &c);
}

AUG_CPU_STAGE(jitter, "color_jitter", JITTER_DOC, SP_STAGE_STOCHASTIC, .status_doc = JITTER_STATUS_DOC,
              .create = jitter_create, .destroy = stateless_destroy, .plan = jitter_plan, .forward = forward);
