/* SPDX-License-Identifier: MIT
 * fuzz.c - stages for tests/fuzz/strategies: each may be captured, and whatever reaches one of them at a
 * wrong step (an input, a live parameter, a metric that is wired back, a weight) changes what it gives. */
#include <spcore/plugin.h>
#include <spcore/rng.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define W 4
#define WORDS 40

typedef struct {
  int64_t drift, learn, fail_at, factors;
  double gain, target;
} params;

typedef struct {
  const params *p;
  int frozen, parts; /* calls of a backward */
  sp_weight w[3];
  sp_factor f[2];
} toy;

enum { FACTORS_W = 1, FACTORS_B = 2, FACTORS_LATE = 4 }; /* w, b have them; the last part of the backward writes them */
enum { DY, X };                                          /* b needs the first alone */

#define DRIFT                                                                                                \
  {                                                                                                          \
    .name = "drift", .type = SP_PARAM_INT, .offset = offsetof(params, drift), .imax = 1000000, .unit = "us", \
    .doc = "longest sleep"                                                                                   \
  }
#define GAIN                                                                                                     \
  {                                                                                                              \
    .name = "gain", .type = SP_PARAM_FLOAT, .flags = SP_PARAM_LIVE, .offset = offsetof(params, gain), .min = -8, \
    .max = 8, .doc = "may change while running"                                                                  \
  }

static void rest(int64_t us) {
  struct timespec t = {0, (long)us * 1000};
  if (us > 0) nanosleep(&t, NULL);
}

/* Sleeps 0..us microseconds, drawn from key: lanes drift against each other, differently at every step. */
static void drift(int64_t us, const sp_step *step, uint64_t salt) {
  if (us > 0) rest(sp_rng_below(sp_rng(step->key ^ salt, step->step, 0).v[0], (uint32_t)us));
}

static int toy_create(sp_ctx *c, const void *p, void **self) {
  toy *t = calloc(1, sizeof *t);
  if (!t) return c->host->fail(c, SP_E_NOMEM, "out of memory");
  t->p = p;
  t->w[0] = (sp_weight){.name = "w",
                        .spec = {.dtype = SP_F32, .ndim = 1, .shape = {W}},
                        .flags = SP_WEIGHT_TRAINED,
                        .init = SP_INIT_UNIFORM,
                        .init_value = 1};
  t->w[1] = (sp_weight){.name = "steps", .spec = {.dtype = SP_F32, .ndim = 1, .shape = {1}}, .flags = SP_WEIGHT_STATE};
  t->w[2] = t->w[0];
  t->w[2].name = "b";
  *self = t;
  return SP_OK;
}

/* ---- mix: the mean of its inputs, times a weight, a live gain and what is wired to `scale`,
 * and another weight ---- */
static const sp_param mix_table[] = {DRIFT,
                                     {.name = "learn",
                                      .type = SP_PARAM_INT,
                                      .offset = offsetof(params, learn),
                                      .idef = 1,
                                      .imax = 1,
                                      .doc = "0: it has no weights"},
                                     {.name = "factors",
                                      .type = SP_PARAM_INT,
                                      .offset = offsetof(params, factors),
                                      .imax = 7,
                                      .doc = "1: of w, 2: of b, 4: written by the last part of the backward"},
                                     GAIN,
                                     {.name = "fail_at",
                                      .type = SP_PARAM_INT,
                                      .offset = offsetof(params, fail_at),
                                      .idef = -1,
                                      .imin = -1,
                                      .imax = 1000000000,
                                      .doc = "step of training at which forward fails"},
                                     {.name = NULL}};
static const sp_port mix_in[] = {
    {.name = "x", .dtypes = SP_DT(SP_F32), .ndim = 2, .flags = SP_PORT_LIST, .doc = "N x 4 each"},
    {.name = "scale",
     .ndim = -1,
     .flags = SP_PORT_LIST | SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "anything: its bytes make a factor"},
    {.name = NULL}};
static const sp_port mix_out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "N x 4"},
                                  {.name = "side",
                                   .dtypes = SP_DT(SP_F32),
                                   .ndim = 2,
                                   .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
                                   .doc = "N x 4: 1 - y"},
                                  {.name = NULL}};

static int has_factors(const toy *t, int w) { return (t->w[w].flags & SP_WEIGHT_FACTORS) != 0; }

static void plan_factors(toy *t, sp_plan *p) {
  const sp_spec rows = {.dtype = SP_F32, .ndim = 2, .shape = {p->batch, W}};
  int64_t of = p->training && p->shards > 1 && t->p->learn ? t->p->factors : 0;
  uint32_t late = of & FACTORS_LATE && !(of & FACTORS_B) ? (uint32_t)t->parts - 1 : 0;
  t->w[0].flags = SP_WEIGHT_TRAINED | (of & FACTORS_W ? SP_WEIGHT_FACTORS : 0u);
  t->w[2].flags = SP_WEIGHT_TRAINED | (of & FACTORS_B ? SP_WEIGHT_FACTORS : 0u);
  t->f[DY] = (sp_factor){.spec = rows, .part = late};
  if (!(of & FACTORS_B)) t->f[DY].part = (uint32_t)t->parts - 1, t->f[DY].early = t->f[DY].part - late;
  t->f[X] = (sp_factor){.spec = rows, .forward = !(of & FACTORS_LATE)};
  if (!t->f[X].forward) t->f[X].part = (uint32_t)t->parts - 1;
  p->factors = t->f;
  p->n_factors = of & FACTORS_W ? 2 : of & FACTORS_B ? 1 : 0;
}

static int mix_plan(sp_ctx *c, void *self, sp_plan *p) {
  toy *t = self;
  (void)c;
  p->out[0].spec[0] = p->out[1].spec[0] = p->in[0].spec[0];
  t->frozen = p->frozen;
  p->weights = t->w;
  p->n_weights = t->p->learn ? 3 : 0;
  t->parts = p->training && p->max_parts > 1 && t->p->learn ? 2 : 1;
  t->w[0].part = (uint32_t)t->parts - 1;
  p->n_parts = (uint32_t)t->parts;
  plan_factors(t, p);
  p->saved_bytes = p->training ? ((size_t)p->batch * W + 1) * sizeof(float) : 0;
  p->scratch_bytes = 64;
  p->repeats = 1;
  return SP_OK;
}

static uint64_t digest(uint64_t h, const void *data, size_t bytes) { /* FNV-1a */
  for (size_t i = 0; i < bytes; i++) h = (h ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
  return h;
}

static size_t bytes_of(const sp_tensor *t) {
  static const size_t size[] = {[SP_U8] = 1, [SP_I8] = 1, [SP_I32] = 4, [SP_I64] = 8, [SP_F32] = 4, [SP_F64] = 8};
  size_t n = (size_t)t->spec.dtype < sizeof size / sizeof *size ? size[t->spec.dtype] : 0;
  for (int i = 0; i < t->spec.ndim; i++) n *= (size_t)t->spec.shape[i];
  return n;
}

static uint64_t digest_list(uint64_t h, const sp_list *list) {
  for (uint32_t i = 0; i < list->n; i++)
    if (list->t[i].data) h = digest(h, list->t[i].data, bytes_of(&list->t[i]));
  return h;
}

/* 0.75 to 1.25 */
static float factor(const sp_io *io) {
  float f = 1 + io->step->live[0];
  if (io->in[1].n) f *= 0.75f + (float)(digest_list(UINT64_C(0xcbf29ce484222325), &io->in[1]) % 1024) / 2048;
  return f;
}

/* Row after row of `from`, times `by`; NULL: of zeros. Zeros behind them, to the end of a full batch. */
static void put_rows(const sp_tensor *to, const float *from, float by, uint32_t n) {
  float *row = to->data;
  for (int64_t i = 0; i < to->spec.shape[0] * W; i++) row[i] = from && i < n * W ? from[i] * by : 0;
}

static int mix_forward(sp_ctx *c, void *self, const sp_io *io) {
  const toy *t = self;
  const float *w = t->p->learn ? io->weights[0].data : NULL, *b = w ? io->weights[2].data : NULL;
  float *y = io->out[0].t[0].data, *side = io->out[1].t[0].data, *saved = io->saved, f = factor(io);
  int gives = io->factors && has_factors(t, 0) && t->f[X].forward;
  if (!io->step->n) {
    if (gives) put_rows(&io->factors[X], NULL, 0, 0);
    return SP_OK;
  }
  if (io->step->training && io->step->step == (uint64_t)t->p->fail_at)
    return c->host->fail(c, SP_E_DATA, "asked to fail");
  drift(t->p->drift, io->step, 1);
  memset(io->scratch, 0xA5, 64);
  if (io->training && w && !t->frozen) ((float *)io->weights[1].data)[0] += 1;
  if (io->training && saved) saved[0] = f;
  for (uint32_t i = 0; i < io->step->n * W; i++) {
    float x = 0;
    for (uint32_t k = 0; k < io->in[0].n; k++) x += ((const float *)io->in[0].t[k].data)[i];
    x /= (float)io->in[0].n;
    if (io->training && saved) saved[1 + i] = x;
    y[i] = x * f * (w ? w[i % W] : 1) + (b ? b[i % W] : 0);
    if (side) side[i] = 1 - y[i];
  }
  if (gives) put_rows(&io->factors[X], saved + 1, f, io->step->n);
  return SP_OK;
}

static void mix_inputs(const sp_io *io, const float *w, const float *dy, float f) {
  for (uint32_t k = 0; k < io->in[0].n; k++) {
    float *dx = io->din[0].t[k].data;
    for (uint32_t i = 0; dx && i < io->step->n * W; i++)
      dx[i] = (io->din_acc[0][k] ? dx[i] : 0) + dy[i] * f * (w ? w[i % W] : 1) / (float)io->in[0].n;
  }
}

static void give(const sp_io *io, int i, const float *dw) {
  float *g = io->dweights[i].data, *w = io->weights[i].data;
  for (int k = 0; k < W; k++)
    if (io->dw_scale) w[k] += *io->dw_scale * dw[k];
    else if (g) g[k] = (io->dw_acc ? g[k] : 0) + dw[k];
}

/* What this part writes of them. */
static void give_factors(const toy *t, const sp_io *io, const float *dy) {
  const float *saved = io->saved;
  if (!io->n_factors) return;
  if (t->f[DY].part - t->f[DY].early == io->part) put_rows(&io->factors[DY], dy, 1, io->step->n);
  if (io->n_factors > X && !t->f[X].forward && t->f[X].part == io->part)
    put_rows(&io->factors[X], io->step->n ? saved + 1 : NULL, io->step->n ? saved[0] : 0, io->step->n);
}

/* The sums of both weights are of one pass; where there are two parts the second finds its own in scratch. */
static int mix_backward(sp_ctx *c, void *self, const sp_io *io) {
  const toy *t = self;
  const float *saved = io->saved, *dy = io->dout[0].t[0].data, *w = t->p->learn ? io->weights[0].data : NULL;
  float *dw = io->scratch, *db = dw + W;
  (void)c;
  drift(t->p->drift, io->step, 2 + 3 * io->part);
  give_factors(t, io, dy);
  if (!io->step->n) return SP_OK;
  if (!io->part) {
    memset(dw, 0, 2 * W * sizeof *dw);
    for (uint32_t i = 0; dy && i < io->step->n * W; i++) {
      dw[i % W] += dy[i] * saved[1 + i] * saved[0];
      db[i % W] += dy[i];
    }
    if (w) give(io, 2, db);
  }
  if ((int)io->part + 1 < t->parts) return SP_OK;
  if (dy) mix_inputs(io, w, dy, saved[0]);
  if (w) give(io, 0, dw);
  return SP_OK;
}

static void apply_to(const sp_io *io, int w, const sp_tensor *dy, const sp_tensor *x) {
  const float *a = dy->data, *b = x ? x->data : NULL;
  float sum[W] = {0};
  for (int64_t i = 0; i < dy->spec.shape[0] * W; i++) sum[i % W] += b ? a[i] * b[i] : a[i];
  float *g = io->dweights[w].data, *to = g ? g : io->weights[w].data;
  for (int k = 0; k < W; k++) to[k] = (g ? 0 : to[k]) + *io->dw_scale * sum[k];
}

/* Weights that are not this call's may be changing meanwhile, so it does not see them. */
static int sees_others(const toy *t, const sp_io *io) {
  for (int i = 0; i < 3; i++)
    if (io->weights[i].data && !(has_factors(t, i) && t->w[i].part == io->part)) return 1;
  return 0;
}

static int mix_apply(sp_ctx *c, void *self, const sp_io *io) {
  const toy *t = self;
  if (sees_others(t, io)) return c->host->fail(c, SP_E_INTERNAL, "apply() sees weights that are not its own");
  rest(t->p->drift / 2);
  if (has_factors(t, 2) && t->w[2].part == io->part) apply_to(io, 2, &io->factors[DY], NULL);
  if (has_factors(t, 0) && t->w[0].part == io->part) apply_to(io, 0, &io->factors[DY], &io->factors[X]);
  return SP_OK;
}

/* ---- loss: the mean square of what a live gain and a target leave ---- */
static const sp_param loss_table[] = {DRIFT,
                                      GAIN,
                                      {.name = "target",
                                       .type = SP_PARAM_FLOAT,
                                       .offset = offsetof(params, target),
                                       .min = -8,
                                       .max = 8,
                                       .doc = "what every value is to become"},
                                      {.name = NULL}};
static const sp_port loss_in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "N x 4"}, {.name = NULL}};
static const sp_port loss_out[] = {
    {.name = "loss", .dtypes = SP_DT(SP_F32), .ndim = 0, .flags = SP_PORT_METRIC, .doc = "mean square"},
    {.name = "status", .dtypes = SP_DT(SP_I64), .ndim = 1, .flags = SP_PORT_STATUS, .doc = "never bad"},
    {.name = "total",
     .dtypes = SP_DT(SP_F64),
     .flags = SP_PORT_TOTAL | SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "see sp_step.batch"},
    {.name = NULL}};

static int loss_plan(sp_ctx *c, void *self, sp_plan *p) {
  (void)c, (void)self;
  p->out[0].spec[0] = (sp_spec){.dtype = SP_F32};
  p->out[1].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  p->out[2].spec[0] = (sp_spec){.dtype = SP_F64};
  return SP_OK;
}

static int loss_forward(sp_ctx *c, void *self, const sp_io *io) {
  const toy *t = self;
  const float *x = io->in[0].t[0].data;
  float *dx = io->din[0].t[0].data, sum = 0, gain = 1 + io->step->live[0];
  uint32_t n = io->step->n * W, full = io->step->batch ? io->step->batch * W : n;
  (void)c;
  drift(t->p->drift, io->step, 3);
  for (uint32_t i = 0; i < n; i++) {
    float d = x[i] - (float)t->p->target;
    sum += d * d;
    if (dx) dx[i] = (io->din_acc[0][0] ? dx[i] : 0) + 2 * gain * d / (float)full * io->step->loss_scale;
  }
  *(float *)io->out[0].t[0].data = gain * sum / (float)n;
  if (io->out[2].t[0].data) *(double *)io->out[2].t[0].data = io->step->batch ? (double)n / full : n;
  memset(io->out[1].t[0].data, 0, 4 * sizeof(int64_t));
  return SP_OK;
}

/* ---- watch: a digest of anything, for the host and for other stages ---- */
static const sp_param watch_table[] = {DRIFT, {.name = NULL}};
static const sp_port watch_in[] = {{.name = "x", .ndim = -1, .flags = SP_PORT_LIST | SP_PORT_NOGRAD, .doc = "anything"},
                                   {.name = NULL}};
static const sp_port watch_out[] = {
    {.name = "digest", .dtypes = SP_DT(SP_I64), .ndim = 0, .flags = SP_PORT_METRIC, .doc = "of all inputs"},
    {.name = "rows",
     .dtypes = SP_DT(SP_I64),
     .ndim = 1,
     .flags = SP_PORT_METRIC | SP_PORT_OPTIONAL,
     .doc = "samples, step, whether it trains"},
    {.name = "words",
     .dtypes = SP_DT(SP_I64),
     .ndim = 1,
     .flags = SP_PORT_OPTIONAL,
     .doc = "the digest many times over, for other stages alone"},
    {.name = NULL}};

static int watch_plan(sp_ctx *c, void *self, sp_plan *p) {
  (void)c, (void)self;
  p->out[0].spec[0] = (sp_spec){.dtype = SP_I64};
  p->out[1].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {3}};
  p->out[2].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {WORDS}};
  return SP_OK;
}

static int watch_forward(sp_ctx *c, void *self, const sp_io *io) {
  int64_t *rows = io->out[1].t[0].data, *words = io->out[2].t[0].data;
  int64_t sum = (int64_t)(digest_list(UINT64_C(0xcbf29ce484222325), &io->in[0]) >> 16);
  (void)c;
  drift(((const toy *)self)->p->drift, io->step, 4);
  *(int64_t *)io->out[0].t[0].data = sum;
  for (int i = 0; words && i < WORDS; i++) words[i] = sum + i;
  if (rows) rows[0] = io->step->n, rows[1] = (int64_t)io->step->step, rows[2] = io->step->training;
  return SP_OK;
}

#define TYPE(var, nm, fl, ins, outs, table, pl, fo, ba, ap)              \
  static const sp_stage_type var = {.size = sizeof(sp_stage_type),       \
                                    .flags = (fl) | SP_STAGE_CAPTURABLE, \
                                    .name = nm,                          \
                                    .device = "cpu",                     \
                                    .doc = "for tests",                  \
                                    .inputs = ins,                       \
                                    .outputs = outs,                     \
                                    .params = table,                     \
                                    .params_size = sizeof(params),       \
                                    .create = toy_create,                \
                                    .destroy = free,                     \
                                    .plan = pl,                          \
                                    .forward = fo,                       \
                                    .backward = ba,                      \
                                    .apply = ap,                         \
                                    .status_doc = "sample %sample: value %value is above %limit"}
TYPE(t_mix, "fuzz_mix", SP_STAGE_INPLACE_SGD, mix_in, mix_out, mix_table, mix_plan, mix_forward, mix_backward,
     mix_apply);
TYPE(t_loss, "fuzz_loss", SP_STAGE_LOSS, loss_in, loss_out, loss_table, loss_plan, loss_forward, NULL, NULL);
TYPE(t_watch, "fuzz_watch", 0, watch_in, watch_out, watch_table, watch_plan, watch_forward, NULL, NULL);

static const sp_stage_type *const all[] = {&t_mix, &t_loss, &t_watch, NULL};

SP_PLUGIN("fuzz", "stages for tests/fuzz/strategies", all);
