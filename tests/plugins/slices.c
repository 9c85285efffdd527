/* SPDX-License-Identifier: MIT
 * slices.c - optimizers with a moment that clip by the norm of all gradients and take slices. The first ones keep the
 * rules, the others break one each, which the door or the conformance suite must name. */
#include <spcore/plugin.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One stage type per way to go wrong; its number is in the instance. */
enum {
  GOOD,
  PLAIN,        /* good: it wants to know nothing of all gradients */
  WHOLE,        /* good: it takes none */
  OWN_NORM,     /* it clips by the norm of its own slices */
  AS_THEY_LIE,  /* it adds the numbers in the order of ranks */
  BLOCKS,       /* its slices may begin anywhere, but it works in blocks */
  FIRST,        /* the first element of each slice is special */
  FORGETS,      /* of slices the moments stay */
  COUNTS,       /* the step is counted where there is something of the first gradient */
  OTHER_METRIC, /* the norm that it tells is that of its slices */
  SILENT,       /* of slices it does not say that a gradient is not finite */
  SHORT,        /* survey() leaves the last number out */
  LOOKS,        /* survey() reads weights */
  SPOILS,       /* survey() scales gradients */
  OVERRUNS,     /* survey() writes a number too much */
  FAILS,        /* survey() fails */
  SPENDS,       /* forward() adds up in sums */
  OTHER_SLICE,  /* of slices `slice` is another */
  OTHER_NAMES,  /* and so are the names of weights */
  FEWER,        /* and their number */
  WHOLE_MOMENT, /* moments are as the gradients were */
  NO_MORE       /* planned again, it takes no slices */
};

#define MOST 8
#define BLOCK 4

typedef struct optimizer {
  int kind;
  uint32_t n, unit;
  sp_weight w[MOST + 1];
  char names[MOST][24];
} optimizer;

static int make(sp_ctx *ctx, int kind, void **self) {
  optimizer *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory");
  s->kind = kind;
  *self = s;
  return SP_OK;
}

static int64_t count(const sp_spec *s) {
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->shape[d];
  return n;
}

static int s_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  optimizer *s = self;
  const sp_speclist *in = &plan->in[0];
  if (in->n > MOST) return ctx->host->fail(ctx, SP_E_RANGE, "%u gradients", in->n);
  plan->out[0].n = in->n;
  memcpy(plan->out[0].spec, in->spec, in->n * sizeof *in->spec);
  plan->out[1].spec[0] = (sp_spec){.dtype = SP_F32};
  plan->out[2].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  for (uint32_t i = 0; i < in->n; i++) {
    snprintf(s->names[i], sizeof s->names[i], "%s.%u", plan->slices && s->kind == OTHER_NAMES ? "slice" : "moment", i);
    if (plan->slices && s->kind == WHOLE_MOMENT) continue;
    s->w[i] = (sp_weight){.name = s->names[i], .spec = in->spec[i], .flags = SP_WEIGHT_STATE, .of = i + 1};
  }
  s->w[in->n] = (sp_weight){.name = "step", .spec = {.dtype = SP_I64}, .flags = SP_WEIGHT_STATE};
  s->n = in->n;
  s->unit = s->kind == PLAIN || s->kind == BLOCKS ? 1 : 2 * BLOCK;
  if (plan->slices && s->kind == OTHER_SLICE) s->unit *= 2;
  plan->slice = s->kind == WHOLE || (plan->slices && s->kind == NO_MORE) ? 0 : s->unit;
  plan->weights = s->w;
  plan->n_weights = in->n + !(plan->slices && s->kind == FEWER);
  return SP_OK;
}

/* Of each `unit` elements a sum; gives how many there are. */
static uint64_t squares(const optimizer *s, const sp_io *io, double *to, double *total) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const float *g = io->in[0].t[i].data;
    for (int64_t at = 0, end = count(&io->in[0].t[i].spec); at < end; at += s->unit, n++) {
      double sum = 0;
      for (int64_t k = at; k < end && k < at + s->unit; k++) sum += (double)g[k] * g[k];
      if (to) to[n] = sum;
      *total += sum;
    }
  }
  return n;
}

static int s_survey(sp_ctx *ctx, void *self, const sp_io *io) {
  optimizer *s = self;
  double total = 0, last = io->sums[0];
  if (s->kind == FAILS) return ctx->host->fail(ctx, SP_E_DATA, "asked to fail");
  uint64_t n = squares(s, io, io->sums, &total);
  if (s->kind == SHORT && n > 1) memcpy(&io->sums[n - 1], &last, sizeof last);
  if (s->kind == LOOKS && n) io->sums[0] += fabsf(*(float *)io->out[0].t[0].data);
  if (s->kind == SPOILS) *(float *)io->in[0].t[0].data *= 2;
  if (s->kind == OVERRUNS) io->sums[n] = 0;
  return SP_OK;
}

static double all_squares(const optimizer *s, const sp_io *io) {
  double total = 0;
  if (!io->sums || s->kind == OWN_NORM) squares(s, io, NULL, &total);
  else
    for (uint64_t i = 0; i < io->n_sums; i++) total += io->sums[s->kind == AS_THEY_LIE ? i : io->sum_at[i]];
  if (io->sums && s->kind == SPENDS) io->sums[0] = total;
  return total;
}

static void tell(const optimizer *s, const sp_io *io, double total) {
  int64_t *status = io->out[2].t[0].data;
  double own = 0;
  squares(s, io, NULL, &own);
  memset(status, 0, 4 * sizeof *status);
  *(float *)io->out[1].t[0].data = (float)sqrt(s->kind == OTHER_METRIC ? own : total);
  if (!isfinite(own) && !(s->kind == SILENT && io->sums)) status[0] = SP_E_DATA;
}

static void update(const optimizer *s, const sp_io *io, uint32_t i, float lr) {
  const float *g = io->in[0].t[i].data;
  float *p = io->out[0].t[i].data, *m = io->weights[i].data, block = 0;
  for (int64_t k = 0, n = count(&io->in[0].t[i].spec); k < n; k++) {
    block = k % BLOCK ? block + g[k] : g[k];
    float d = s->kind == BLOCKS ? block : s->kind == FIRST && !k ? 2 * g[k] : g[k];
    float moment = 0.5f * m[k] + d;
    if (!(s->kind == FORGETS && io->sums)) m[k] = moment;
    p[k] -= lr * moment;
  }
}

static int s_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const optimizer *s = self;
  double total = s->kind == PLAIN ? 1 : all_squares(s, io);
  (void)ctx;
  tell(s, io, total);
  for (uint32_t i = 0; i < s->n; i++) update(s, io, i, (float)(0.1 / sqrt(total)));
  if (s->kind != COUNTS || count(&io->in[0].t[0].spec)) ++*(int64_t *)io->weights[s->n].data;
  return SP_OK;
}

static const sp_port s_in[] = {
    {.name = "gradients", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_LIST | SP_PORT_NOGRAD, .doc = "of all"},
    {.name = NULL}};
static const sp_port s_out[] = {
    {.name = "weights", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_LIST | SP_PORT_NOGRAD, .doc = "updated"},
    {.name = "norm", .dtypes = SP_DT(SP_F32), .ndim = 0, .flags = SP_PORT_METRIC | SP_PORT_NOGRAD, .doc = "of all"},
    {.name = "status",
     .dtypes = SP_DT(SP_I64),
     .ndim = 1,
     .flags = SP_PORT_STATUS | SP_PORT_NOGRAD,
     .doc = "not finite"},
    {.name = NULL}};

#define STAGE(kind, id)                                                              \
  static int create_##id(sp_ctx *ctx, const void *params, void **self) {             \
    (void)params;                                                                    \
    return make(ctx, kind, self);                                                    \
  }                                                                                  \
  static const sp_stage_type stage_##id = {.size = sizeof(sp_stage_type),            \
                                           .flags = SP_STAGE_OPTIMIZER,              \
                                           .name = #id,                              \
                                           .device = "cpu",                          \
                                           .doc = "For tests",                       \
                                           .inputs = s_in,                           \
                                           .outputs = s_out,                         \
                                           .status_doc = "a gradient is not finite", \
                                           .create = create_##id,                    \
                                           .destroy = free,                          \
                                           .plan = s_plan,                           \
                                           .forward = s_forward,                     \
                                           .survey = kind == PLAIN ? NULL : s_survey};

STAGE(GOOD, clips)
STAGE(PLAIN, clips_not)
STAGE(WHOLE, takes_none)
STAGE(OWN_NORM, own_norm)
STAGE(AS_THEY_LIE, as_they_lie)
STAGE(BLOCKS, in_blocks)
STAGE(FIRST, first_is_special)
STAGE(FORGETS, forgets_moments)
STAGE(COUNTS, counts_some)
STAGE(OTHER_METRIC, other_metric)
STAGE(SILENT, silent)
STAGE(SHORT, short_survey)
STAGE(LOOKS, looks)
STAGE(SPOILS, spoils_gradients)
STAGE(OVERRUNS, overruns)
STAGE(FAILS, fails_to_survey)
STAGE(SPENDS, spends)
STAGE(OTHER_SLICE, other_slice)
STAGE(OTHER_NAMES, other_names)
STAGE(FEWER, fewer)
STAGE(WHOLE_MOMENT, whole_moment)
STAGE(NO_MORE, no_more)

static const sp_stage_type *const stages[] = {&stage_clips,
                                              &stage_clips_not,
                                              &stage_takes_none,
                                              &stage_own_norm,
                                              &stage_as_they_lie,
                                              &stage_in_blocks,
                                              &stage_first_is_special,
                                              &stage_forgets_moments,
                                              &stage_counts_some,
                                              &stage_other_metric,
                                              &stage_silent,
                                              &stage_short_survey,
                                              &stage_looks,
                                              &stage_spoils_gradients,
                                              &stage_overruns,
                                              &stage_fails_to_survey,
                                              &stage_spends,
                                              &stage_other_slice,
                                              &stage_other_names,
                                              &stage_fewer,
                                              &stage_whole_moment,
                                              &stage_no_more,
                                              NULL};

SP_PLUGIN("slices", "for tests", stages);
