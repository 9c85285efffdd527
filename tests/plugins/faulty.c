/* SPDX-License-Identifier: MIT
 * faulty.c - stages that load, but break a rule each; the door and the conformance suite must name it.
 * "good" keeps all. */
#include <spcore/plugin.h>

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* One stage type per way to go wrong; its number is in the instance. */
enum {
  GOOD,
  NO_WORDS,
  NO_STATUS,
  WORDS_BUT_OK,
  TWO_FAILS,
  HALF_OUTPUT,
  OVERRUN,
  COPIES_ON,
  CHANGES_INPUT,
  USES_SCRATCH,
  NO_ACC,
  SHORT_BATCH,
  BAD_DTYPE,
  BAD_EXTENT,
  TWO_WEIGHTS,
  SAVED,
  FORGETS,
  ROUNDS,
  HAS_LENGTH,
  IS_INPLACE,
  RESTORES,
  STEPLESS,
  SEPARATE,
  AVERAGES,
  SLICE,
  OF,
  REPEATS
};

/* As a stage does that wants a bound, and as a compiler's -Ofast lets a file do that is loaded. */
static void leave_a_mode(void) {
  fesetround(FE_UPWARD);
#ifdef __SSE__
  _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
}

__attribute__((constructor)) static void loaded(void) {
  if (getenv("SP_TEST_MODE")) leave_a_mode();
}

typedef struct wrong_params {
  double gain;
} wrong_params;

typedef struct wrong {
  int kind;
  float gain;
} wrong;

static int make(int kind, const void *params, void **self) {
  wrong *w = malloc(sizeof *w);
  if (!w) return SP_E_NOMEM;
  w->kind = kind;
  w->gain = (float)((const wrong_params *)params)->gain;
  *self = w;
  if (kind == ROUNDS) leave_a_mode();
  return SP_OK;
}

static void w_destroy(void *self) {
  if (((wrong *)self)->kind == ROUNDS) leave_a_mode();
  free(self);
}

static int w_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  static const sp_weight twins[] = {
      {.name = "0.weight", .spec = {.dtype = SP_F32, .ndim = 1, .shape = {4}}, .flags = SP_WEIGHT_TRAINED},
      {.name = "0.weight", .spec = {.dtype = SP_F32, .ndim = 1, .shape = {4}}, .flags = SP_WEIGHT_TRAINED}};
  static const sp_weight kept[] = {{.name = "kept", .spec = {.dtype = SP_F32}, .flags = SP_WEIGHT_STATE, .of = 1}};
  static const sp_weight read[] = {{.name = "read", .spec = {.dtype = SP_F32}, .flags = SP_WEIGHT_STATE}};
  wrong *w = self;
  plan->out[0].spec[0] = plan->in[0].spec[0];
  plan->scratch_bytes = 64;
  if (w->kind == ROUNDS) leave_a_mode();
  if (w->kind == BAD_DTYPE) plan->out[0].spec[0].dtype = SP_U8;
  if (w->kind == BAD_EXTENT) plan->out[0].spec[0].shape[1] = 0;
  if (w->kind == SAVED) plan->saved_bytes = 4;
  if (w->kind == FORGETS) plan->out[0].spec[0] = (sp_spec){0};
  if (w->kind == TWO_WEIGHTS) {
    plan->weights = twins;
    plan->n_weights = 2;
  }
  if (w->kind == OF) {
    plan->weights = kept;
    plan->n_weights = 1;
  }
  if (w->kind == REPEATS) {
    plan->weights = read;
    plan->n_weights = plan->repeats = 1;
  }
  plan->slice = w->kind == SLICE;
  plan->length = w->kind == HAS_LENGTH;
  plan->inplace = w->kind == IS_INPLACE;
  plan->restores = w->kind == RESTORES;
  plan->stepless = w->kind == STEPLESS ? 2 : 0;
  plan->separate = w->kind == SEPARATE;
  plan->averages = w->kind == AVERAGES;
  if (plan->in[0].spec[0].shape[1] > 100)
    return ctx->host->fail(ctx, SP_E_SHAPE, "at most 100 channels, got %d", (int)plan->in[0].spec[0].shape[1]);
  return SP_OK;
}

static size_t count(const sp_spec *s) {
  size_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= (size_t)s->shape[d];
  return n;
}

static int w_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const wrong *w = self;
  const float *x = io->in[0].t[0].data;
  float *y = io->out[0].t[0].data;
  size_t n = count(&io->in[0].t[0].spec);
  if (w->kind == ROUNDS) leave_a_mode();
  if (w->kind == NO_WORDS) return SP_E_DATA;
  if (w->kind == NO_STATUS) return 7;
  if (w->kind == WORDS_BUT_OK) {
    ctx->host->fail(ctx, SP_E_DATA, "something is amiss");
    return SP_OK;
  }
  if (w->kind == TWO_FAILS) {
    ctx->host->fail(ctx, SP_E_DATA, "the first words");
    return ctx->host->fail(ctx, SP_E_DATA, "the second words");
  }
  if (w->kind == SHORT_BATCH) n = n / io->step->n * 6;
  for (size_t i = 0; i < n; i++) y[i] = x[i] * w->gain;
  if (w->kind == OVERRUN) y[n] = 1;
  if (w->kind == COPIES_ON && io->in[0].t[0].spec.shape[0] == 6) memcpy(y, x, (n + 16) * sizeof *y);
  if (w->kind == CHANGES_INPUT) ((float *)io->in[0].t[0].data)[0] += 1;
  if (w->kind == USES_SCRATCH) memcpy(y, io->scratch, 4);
  if (w->kind == REPEATS) y[0] += *(float *)io->weights[0].data;
  return SP_OK;
}

static int half_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const float *x = io->in[0].t[0].data;
  float *y = io->out[0].t[0].data;
  size_t n = count(&io->in[0].t[0].spec);
  (void)ctx;
  for (size_t i = 0; i < n / 2; i++) y[i] = x[i] * ((const wrong *)self)->gain;
  return SP_OK;
}

static int w_backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const wrong *w = self;
  const float *dy = io->dout[0].t[0].data;
  float *dx = io->din[0].t[0].data;
  (void)ctx;
  if (w->kind == ROUNDS) leave_a_mode();
  if (!dx) return SP_OK;
  int acc = io->din_acc[0][0] && w->kind != NO_ACC;
  size_t n = count(&io->in[0].t[0].spec);
  for (size_t i = 0; i < n; i++) dx[i] = (acc ? dx[i] : 0) + (dy ? dy[i] : 0) * w->gain;
  return SP_OK;
}

static const sp_param w_params[] = {{.name = "gain",
                                     .type = SP_PARAM_FLOAT,
                                     .offset = offsetof(wrong_params, gain),
                                     .def = 2,
                                     .min = -10,
                                     .max = 10,
                                     .flags = SP_PARAM_LIVE,
                                     .doc = "what the input is multiplied by"},
                                    {0}};
static const sp_port w_in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = 4, .doc = "the input"}, {0}};
static const sp_port w_out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 4, .doc = "the product"}, {0}};

#define STAGE(kind, id, fwd, fl)                                                \
  static int create_##id(sp_ctx *ctx, const void *params, void **self) {        \
    (void)ctx;                                                                  \
    return make(kind, params, self);                                            \
  }                                                                             \
  static const sp_stage_type stage_##id = {.size = sizeof(sp_stage_type),       \
                                           .flags = fl,                         \
                                           .name = #id,                         \
                                           .device = "cpu",                     \
                                           .doc = "Multiplies by a number",     \
                                           .inputs = w_in,                      \
                                           .outputs = w_out,                    \
                                           .params = w_params,                  \
                                           .params_size = sizeof(wrong_params), \
                                           .create = create_##id,               \
                                           .destroy = w_destroy,                \
                                           .plan = w_plan,                      \
                                           .forward = fwd,                      \
                                           .backward = w_backward};

STAGE(GOOD, good, w_forward, 0)
STAGE(GOOD, good_reentrant, w_forward, SP_STAGE_REENTRANT)
STAGE(NO_WORDS, no_words, w_forward, 0)
STAGE(NO_STATUS, no_status, w_forward, 0)
STAGE(WORDS_BUT_OK, words_but_ok, w_forward, 0)
STAGE(TWO_FAILS, two_fails, w_forward, 0)
STAGE(HALF_OUTPUT, half_output, half_forward, 0)
STAGE(OVERRUN, overrun, w_forward, 0)
STAGE(COPIES_ON, copies_on, w_forward, 0)
STAGE(CHANGES_INPUT, changes_input, w_forward, 0)
STAGE(USES_SCRATCH, uses_scratch, w_forward, 0)
STAGE(NO_ACC, no_acc, w_forward, 0)
STAGE(SHORT_BATCH, short_batch, w_forward, 0)
STAGE(BAD_DTYPE, bad_dtype, w_forward, 0)
STAGE(BAD_EXTENT, bad_extent, w_forward, 0)
STAGE(TWO_WEIGHTS, two_weights, w_forward, 0)
STAGE(SAVED, saved, w_forward, 0)
STAGE(FORGETS, forgets, w_forward, 0)
STAGE(ROUNDS, rounds, w_forward, 0)
STAGE(HAS_LENGTH, has_length, w_forward, 0)
STAGE(IS_INPLACE, is_inplace, w_forward, SP_STAGE_INPLACE_SGD)
STAGE(RESTORES, restores, w_forward, 0)
STAGE(STEPLESS, stepless, w_forward, 0)
STAGE(SEPARATE, separate, w_forward, 0)
STAGE(AVERAGES, averages, w_forward, 0)
STAGE(SLICE, slice, w_forward, 0)
STAGE(OF, of, w_forward, 0)
STAGE(REPEATS, repeats, w_forward, 0)

static const sp_stage_type *const stages[] = {
    &stage_good,         &stage_good_reentrant, &stage_no_words,     &stage_no_status,
    &stage_words_but_ok, &stage_two_fails,      &stage_half_output,  &stage_overrun,
    &stage_copies_on,    &stage_changes_input,  &stage_uses_scratch, &stage_no_acc,
    &stage_short_batch,  &stage_bad_dtype,      &stage_bad_extent,   &stage_two_weights,
    &stage_saved,        &stage_forgets,        &stage_rounds,       &stage_has_length,
    &stage_is_inplace,   &stage_restores,       &stage_stepless,     &stage_separate,
    &stage_averages,     &stage_slice,          &stage_repeats,      &stage_of,           NULL};

#undef SP_PLUGIN_VERSION
#define SP_PLUGIN_VERSION "1.2"
SP_PLUGIN("faulty", "for tests", stages);
