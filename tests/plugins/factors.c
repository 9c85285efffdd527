/* SPDX-License-Identifier: MIT
 * factors.c - stages y = weight x + bias + shift, where x is all of a sample, which leave the gradients of weight and
 * bias to apply(). The first ones keep the rules, the others break one each,
 * which the door or the conformance suite must name. */
#include <spcore/plugin.h>

#include <stdlib.h>
#include <string.h>

/* One stage type per way to go wrong; its number is in the instance. */
enum {
  GOOD,
  LATE,        /* good: the last part of backward() copies x */
  WIDE,        /* good: small samples have no factors */
  NARROW,      /* good: the rows of x are bfloat16 */
  AHEAD,       /* good: those that part 1 of apply() reads are complete in part 0 */
  STALE_ROWS,  /* samples that are not there keep their rows of x */
  NO_ROWS,     /* nothing is done without samples */
  BUSY,        /* without samples there is an output all the same */
  COUNTS,      /* and a gradient */
  HALF,        /* a row of x is not written */
  EARLY,       /* forward() writes the rows of dy */
  OTHER_PART,  /* part 1 writes rows that were complete in part 0 */
  OTHER_PASS,  /* a row of the next pass is written */
  OTHER_SHIFT, /* the gradient of `shift` is another one than without factors */
  ADDS,        /* apply() adds to dweights */
  NO_SCALE,    /* it forgets the scale */
  ONE_PASS,    /* it reads the rows of the first pass alone */
  ALL_WEIGHTS, /* it makes all gradients in part 0 */
  READS_LATER, /* its part 0 reads rows of part 1 */
  SPOILS,      /* it changes the rows */
  TOO_MUCH,    /* it updates weights that have gradients, too */
  UNSTEADY,    /* it does not give the same bits again */
  OVERWRITES,  /* in place it forgets the weight */
  FAILS,       /* it fails */
  NO_APPLY,    /* there is none */
  NOT_ASKED,   /* there are factors where the step is one shard */
  UNLISTED,    /* a weight has FACTORS, but there are none */
  UNTRAINED,   /* a statistic has FACTORS */
  DOUBLES,     /* a factor is float64 */
  NO_PART,     /* a factor is in a part that there is not */
  TOO_EARLY,   /* it is complete before the first part */
  TOO_MANY,    /* more factors than a stage may have */
  NOWHERE,     /* factors at NULL */
  TWO_SIDES    /* `forward` is 2 */
};

enum { WEIGHT, BIAS, SHIFT, STATISTIC, WEIGHTS };
enum { X, DY, FACTORS };
enum { OUT = 3 };

typedef struct product {
  int kind, calls;
  int64_t k; /* elements of a sample */
  sp_weight w[WEIGHTS];
  sp_factor f[FACTORS];
} product;

static int make(sp_ctx *ctx, int kind, void **self) {
  static const char *const names[] = {"weight", "bias", "shift", "statistic"};
  product *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory");
  s->kind = kind;
  for (int i = 0; i < WEIGHTS; i++)
    s->w[i] = (sp_weight){.name = names[i],
                          .spec = {.dtype = SP_F32, .ndim = 1, .shape = {i == SHIFT ? 1 : OUT}},
                          .init = SP_INIT_UNIFORM,
                          .init_value = 1};
  *self = s;
  return SP_OK;
}

static void plan_weights(product *s, int asked, int two) {
  s->w[WEIGHT].spec.ndim = 2;
  s->w[WEIGHT].spec.shape[1] = s->k;
  for (int i = 0; i < STATISTIC; i++) s->w[i].flags = SP_WEIGHT_TRAINED;
  s->w[STATISTIC].flags = SP_WEIGHT_STATE | (asked && s->kind == UNTRAINED ? SP_WEIGHT_FACTORS : 0u);
  if (asked) s->w[WEIGHT].flags |= SP_WEIGHT_FACTORS, s->w[BIAS].flags |= SP_WEIGHT_FACTORS;
  s->w[WEIGHT].part = (uint32_t)two;
}

static void plan_factors(product *s, sp_plan *plan, int two) {
  int ahead = s->kind == AHEAD || s->kind == OTHER_PART, late = s->kind == LATE || s->kind == READS_LATER || ahead;
  s->f[X] = (sp_factor){.spec = {.dtype = s->kind == NARROW    ? SP_BF16
                                          : s->kind == DOUBLES ? SP_F64
                                                               : SP_F32,
                                 .ndim = 2,
                                 .shape = {plan->batch, s->k}},
                        .forward = s->kind == TWO_SIDES ? 2 : !late,
                        .part = late ? (uint32_t)two : 0,
                        .early = ahead ? (uint32_t)two : 0};
  s->f[DY] = (sp_factor){.spec = {.dtype = SP_F32, .ndim = 2, .shape = {plan->batch, OUT}},
                         .part = s->kind == NO_PART ? (uint32_t)two + 1 : 0,
                         .early = s->kind == TOO_EARLY};
  plan->factors = s->kind == NOWHERE ? NULL : s->f;
  plan->n_factors = s->kind == UNLISTED ? 0 : s->kind == TOO_MANY ? SP_MAX_FACTORS + 1 : FACTORS;
}

static int f_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  product *s = self;
  const sp_spec *x = &plan->in[0].spec[0];
  int two = plan->training && plan->max_parts > 1, asked = plan->training && plan->shards > 1;
  (void)ctx;
  s->k = 1;
  for (int d = 1; d < x->ndim; d++) s->k *= x->shape[d];
  if (s->kind == NOT_ASKED) asked = 1;
  if (s->kind == WIDE && s->k < 4096) asked = 0;
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_F32, .ndim = 2, .shape = {plan->batch, OUT}};
  plan_weights(s, asked, two);
  plan->weights = s->w;
  plan->n_weights = WEIGHTS;
  plan->n_parts = two ? 2 : 1;
  if (asked) plan_factors(s, plan, two);
  return SP_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static float bf16(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static float value(const sp_tensor *t, int64_t i) {
  uint32_t bits;
  float v;
  if (t->spec.dtype == SP_F32) return ((const float *)t->data)[i];
  bits = (uint32_t)((const uint16_t *)t->data)[i] << 16;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static void put(const sp_tensor *t, int64_t i, float v) {
  uint32_t bits;
  if (t->spec.dtype == SP_F32) {
    ((float *)t->data)[i] = v;
    return;
  }
  v = bf16(v);
  memcpy(&bits, &v, sizeof bits);
  ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
}

/* The rows of n samples, then zeros to the end of a full batch. */
static void put_rows(const product *s, const sp_tensor *t, const float *from, int64_t n) {
  int64_t there = from ? n * t->spec.shape[1] : 0, all = t->spec.shape[0] * t->spec.shape[1];
  int x = t->spec.shape[1] == s->k;
  if (x && s->kind == STALE_ROWS) all = there;
  if (!n && s->kind == NO_ROWS) all = 0;
  for (int64_t i = x && s->kind == HALF ? s->k : 0; i < all; i++) put(t, i, i < there ? from[i] : 0);
  if (x && s->kind == OTHER_PASS && n == t->spec.shape[0]) put(t, all, 0);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static int f_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const product *s = self;
  const float *x = io->in[0].t[0].data, *w = io->weights[WEIGHT].data, *b = io->weights[BIAS].data;
  float *y = io->out[0].t[0].data, shift = *(const float *)io->weights[SHIFT].data;
  int64_t n = io->in[0].t[0].spec.shape[0];
  (void)ctx;
  if (io->factors && s->f[X].forward) put_rows(s, &io->factors[X], x, n);
  if (io->factors && s->kind == EARLY) put_rows(s, &io->factors[DY], NULL, n);
  if (!n && s->kind == BUSY) y[0] = 0;
  for (int64_t i = 0; i < n * OUT; i++) {
    y[i] = b[i % OUT] + shift;
    for (int64_t k = 0; k < s->k; k++) y[i] += w[i % OUT * s->k + k] * x[i / OUT * s->k + k];
  }
  return SP_OK;
}

static void give(const sp_io *io, int w, int64_t i, float v) {
  float *g = io->dweights[w].data;
  if (g) g[i] = (io->dw_acc ? g[i] : 0) + v;
}

/* Sums over samples, where they are not left to apply(). */
static void sums(const product *s, const sp_io *io, const float *dy, int64_t n, int w) {
  const float *x = io->in[0].t[0].data;
  int64_t cols = w == WEIGHT ? s->k : 1;
  for (int64_t i = 0; i < OUT * cols && io->dweights[w].data; i++) {
    float sum = 0;
    for (int64_t r = 0; dy && r < n; r++) sum += dy[r * OUT + i / cols] * (w == WEIGHT ? x[r * s->k + i % cols] : 1);
    give(io, w, i, sum);
  }
}

static void shifts(const product *s, const sp_io *io, const float *dy, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; dy && i < n * OUT; i++) sum += dy[i];
  if (n || s->kind == COUNTS) give(io, SHIFT, 0, io->factors && s->kind == OTHER_SHIFT ? 2 * sum : sum);
}

static void inputs(const product *s, const sp_io *io, const float *dy, int64_t n) {
  const float *w = io->weights[WEIGHT].data;
  float *dx = io->din[0].t[0].data;
  for (int64_t i = 0; dx && i < n * s->k; i++) {
    float sum = io->din_acc[0][0] ? dx[i] : 0;
    for (int j = 0; dy && j < OUT; j++) sum += dy[i / s->k * OUT + j] * w[j * s->k + i % s->k];
    dx[i] = sum;
  }
}

static int f_backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const product *s = self;
  const float *dy = io->dout[0].t[0].data;
  int64_t n = io->in[0].t[0].spec.shape[0];
  (void)ctx;
  for (int i = 0; i < (int)io->n_factors; i++)
    if (!s->f[i].forward && (s->f[i].part - s->f[i].early == io->part || (s->kind == OTHER_PART && i == X)))
      put_rows(s, &io->factors[i], s->kind == OTHER_PART && io->part ? NULL : i == X ? io->in[0].t[0].data : dy, n);
  if (!io->part) sums(s, io, dy, n, BIAS), shifts(s, io, dy, n);
  if (io->part == s->w[WEIGHT].part) sums(s, io, dy, n, WEIGHT), inputs(s, io, dy, n);
  return SP_OK;
}

static void apply_to(product *s, const sp_io *io, int w) {
  const sp_tensor *x = &io->factors[X], *dy = &io->factors[DY];
  float *g = io->dweights[w].data, *to = g ? g : io->weights[w].data, scale = s->kind == NO_SCALE ? 1 : *io->dw_scale;
  int64_t rows = dy->spec.shape[0] / (s->kind == ONE_PASS ? 3 : 1), cols = w == WEIGHT ? s->k : 1;
  for (int64_t i = 0; i < OUT * cols; i++) {
    float sum = s->kind == READS_LATER && w == BIAS ? value(x, 0) - value(x, 0) : 0;
    for (int64_t r = 0; r < rows; r++)
      sum += value(dy, r * OUT + i / cols) * (w == WEIGHT ? value(x, r * s->k + i % cols) : 1);
    if (s->kind == UNSTEADY) sum *= 1 + 1e-6f * (float)(s->calls % 2);
    to[i] = ((!g && s->kind != OVERWRITES) || s->kind == ADDS ? to[i] : 0) + scale * sum;
    if (g && s->kind == TOO_MUCH) ((float *)io->weights[w].data)[i] += scale * sum;
  }
}

static int f_apply(sp_ctx *ctx, void *self, const sp_io *io) {
  product *s = self;
  if (s->kind == FAILS) return ctx->host->fail(ctx, SP_E_DATA, "asked to fail");
  for (int w = WEIGHT; w <= BIAS; w++)
    if (s->w[w].part == io->part || s->kind == ALL_WEIGHTS) apply_to(s, io, w);
  if (s->kind == SPOILS) put(&io->factors[DY], 0, 1);
  s->calls++;
  return SP_OK;
}

static const sp_port f_in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "any"}, {.name = NULL}};
static const sp_port f_out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "N x 3"}, {.name = NULL}};

#define STAGE(kind, id)                                                   \
  static int create_##id(sp_ctx *ctx, const void *params, void **self) {  \
    (void)params;                                                         \
    return make(ctx, kind, self);                                         \
  }                                                                       \
  static const sp_stage_type stage_##id = {.size = sizeof(sp_stage_type), \
                                           .name = #id,                   \
                                           .device = "cpu",               \
                                           .doc = "For tests",            \
                                           .inputs = f_in,                \
                                           .outputs = f_out,              \
                                           .create = create_##id,         \
                                           .destroy = free,               \
                                           .plan = f_plan,                \
                                           .forward = f_forward,          \
                                           .backward = f_backward,        \
                                           .apply = kind == NO_APPLY ? NULL : f_apply};

STAGE(GOOD, product)
STAGE(LATE, product_late)
STAGE(WIDE, product_wide)
STAGE(NARROW, product_narrow)
STAGE(AHEAD, product_ahead)
STAGE(STALE_ROWS, stale_rows)
STAGE(NO_ROWS, no_rows)
STAGE(BUSY, busy)
STAGE(COUNTS, counts)
STAGE(HALF, half_rows)
STAGE(EARLY, early_rows)
STAGE(OTHER_PART, other_part)
STAGE(OTHER_PASS, other_pass)
STAGE(OTHER_SHIFT, other_shift)
STAGE(ADDS, adds)
STAGE(NO_SCALE, no_scale)
STAGE(ONE_PASS, one_pass)
STAGE(ALL_WEIGHTS, all_weights)
STAGE(READS_LATER, reads_later)
STAGE(SPOILS, spoils)
STAGE(TOO_MUCH, too_much)
STAGE(UNSTEADY, unsteady)
STAGE(OVERWRITES, overwrites)
STAGE(FAILS, fails_to_apply)
STAGE(NO_APPLY, no_apply)
STAGE(NOT_ASKED, not_asked)
STAGE(UNLISTED, unlisted)
STAGE(UNTRAINED, untrained)
STAGE(DOUBLES, doubles)
STAGE(NO_PART, no_part)
STAGE(TOO_EARLY, too_early)
STAGE(TOO_MANY, too_many_factors)
STAGE(NOWHERE, nowhere)
STAGE(TWO_SIDES, two_sides)

static const sp_stage_type *const stages[] = {
    &stage_product,    &stage_product_late,     &stage_product_wide, &stage_product_narrow, &stage_product_ahead,
    &stage_stale_rows, &stage_no_rows,          &stage_busy,         &stage_counts,         &stage_half_rows,
    &stage_early_rows, &stage_other_part,       &stage_other_pass,   &stage_other_shift,    &stage_adds,
    &stage_no_scale,   &stage_one_pass,         &stage_all_weights,  &stage_reads_later,    &stage_spoils,
    &stage_too_much,   &stage_unsteady,         &stage_overwrites,   &stage_fails_to_apply, &stage_no_apply,
    &stage_not_asked,  &stage_unlisted,         &stage_untrained,    &stage_doubles,        &stage_no_part,
    &stage_too_early,  &stage_too_many_factors, &stage_nowhere,      &stage_two_sides,      NULL};

SP_PLUGIN("factors", "for tests", stages);
