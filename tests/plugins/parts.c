/* SPDX-License-Identifier: MIT
 * parts.c - stages y = weight * x + bias whose backward may be in two parts: `cut` keeps the rules, the others break
 * one each, which the door or the conformance suite must name. */
#include <spcore/plugin.h>

#include <stdlib.h>

/* One stage type per way to go wrong; its number is in the instance. */
enum {
  CUT,
  WRITES_OTHER, /* part 0 writes the gradient that part 1 completes */
  UNFINISHED,   /* part 0 leaves its gradient to part 1 */
  READS_SPENT,  /* part 1 reads the weight of part 0 */
  NO_ACC,       /* part 1 overwrites what is there */
  FORGETS,      /* what part 0 knows is lost when it is over */
  FAILS,        /* part 1 fails */
  TOO_MANY,     /* the parts are more than the host allows */
  EMPTY,        /* nothing is in part 1 */
  NO_SUCH       /* a weight is in a part that there is not */
};

typedef struct cutter {
  int kind;
  sp_weight w[2];
} cutter;

enum { WEIGHT, BIAS };

static int make(sp_ctx *ctx, int kind, void **self) {
  cutter *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory");
  s->kind = kind;
  for (int i = 0; i < 2; i++)
    s->w[i] = (sp_weight){.name = i == WEIGHT ? "weight" : "bias",
                          .spec = {.dtype = SP_F32},
                          .flags = SP_WEIGHT_TRAINED,
                          .init = SP_INIT_UNIFORM,
                          .init_value = 1};
  *self = s;
  return SP_OK;
}

static int p_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  cutter *s = self;
  int two = plan->training && plan->max_parts > 1;
  (void)ctx;
  plan->out[0].spec[0] = plan->in[0].spec[0];
  plan->weights = s->w;
  plan->n_weights = 2;
  plan->scratch_bytes = sizeof(float);
  plan->n_parts = two ? 2 : 1;
  s->w[WEIGHT].part = two && s->kind != EMPTY ? 1 : 0;
  if (two && s->kind == NO_SUCH) s->w[WEIGHT].part = 2;
  if (two && s->kind == TOO_MANY) plan->n_parts = plan->max_parts + 1;
  return SP_OK;
}

static int64_t count(const sp_tensor *t) {
  int64_t n = 1;
  for (int d = 0; d < t->spec.ndim; d++) n *= t->spec.shape[d];
  return n;
}

static int p_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const float *x = io->in[0].t[0].data, *w = io->weights[WEIGHT].data, *b = io->weights[BIAS].data;
  float *y = io->out[0].t[0].data;
  (void)ctx, (void)self;
  for (int64_t i = 0, n = count(&io->in[0].t[0]); i < n; i++) y[i] = *w * x[i] + *b;
  return SP_OK;
}

static void put(const sp_io *io, int w, float sum, int acc) {
  float *g = io->dweights[w].data;
  if (io->dw_scale) *(float *)io->weights[w].data += *io->dw_scale * sum;
  else if (g) *g = acc ? *g + sum : sum;
}

/* Both sums are of one pass over dy: that of the weight is kept for the second part. */
static void first_part(const cutter *s, const sp_io *io, float *kept, float *sum) {
  const float *x = io->in[0].t[0].data, *dy = io->dout[0].t[0].data;
  *kept = *sum = 0;
  for (int64_t i = 0, n = dy ? count(&io->in[0].t[0]) : 0; i < n; i++) {
    *kept += x[i] * dy[i];
    *sum += dy[i];
  }
  if (s->kind != UNFINISHED || s->w[WEIGHT].part == 0) put(io, BIAS, *sum, (int)io->dw_acc);
  if (s->kind == WRITES_OTHER && s->w[WEIGHT].part == 1) put(io, WEIGHT, *kept, 0);
}

static void second_part(const cutter *s, const sp_io *io, float sum) {
  const float *dy = io->dout[0].t[0].data, *b = io->weights[BIAS].data;
  float *dx = io->din[0].t[0].data, w = *(const float *)io->weights[WEIGHT].data;
  if (s->kind == READS_SPENT) w += *b - *b;
  for (int64_t i = 0, n = dx ? count(&io->in[0].t[0]) : 0; i < n; i++)
    dx[i] = (io->din_acc[0][0] ? dx[i] : 0) + (dy ? w * dy[i] : 0);
  put(io, WEIGHT, sum, s->kind == NO_ACC && io->part ? 0 : (int)io->dw_acc);
}

static int p_backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const cutter *s = self;
  int two = s->w[WEIGHT].part == 1;
  float own = 0, sum, *kept = s->kind == FORGETS ? &own : io->scratch;
  if (s->kind == FAILS && io->part) return ctx->host->fail(ctx, SP_E_DATA, "asked to fail");
  if (!io->part) first_part(s, io, kept, &sum);
  if (!two || io->part) second_part(s, io, *kept);
  if (s->kind == UNFINISHED && io->part) put(io, BIAS, *kept, 0);
  return SP_OK;
}

static const sp_port p_in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "any"}, {.name = NULL}};
static const sp_port p_out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "weight * x + bias"},
                                {.name = NULL}};

#define STAGE(kind, id)                                                   \
  static int create_##id(sp_ctx *ctx, const void *params, void **self) {  \
    (void)params;                                                         \
    return make(ctx, kind, self);                                         \
  }                                                                       \
  static const sp_stage_type stage_##id = {.size = sizeof(sp_stage_type), \
                                           .flags = SP_STAGE_INPLACE_SGD, \
                                           .name = #id,                   \
                                           .device = "cpu",               \
                                           .doc = "For tests",            \
                                           .inputs = p_in,                \
                                           .outputs = p_out,              \
                                           .create = create_##id,         \
                                           .destroy = free,               \
                                           .plan = p_plan,                \
                                           .forward = p_forward,          \
                                           .backward = p_backward};

STAGE(CUT, cut)
STAGE(WRITES_OTHER, writes_other)
STAGE(UNFINISHED, unfinished)
STAGE(READS_SPENT, reads_spent)
STAGE(NO_ACC, no_acc_parts)
STAGE(FORGETS, forgets_parts)
STAGE(FAILS, fails_in_part)
STAGE(TOO_MANY, too_many_parts)
STAGE(EMPTY, empty_part)
STAGE(NO_SUCH, no_such_part)

static const sp_stage_type *const stages[] = {&stage_cut,
                                              &stage_writes_other,
                                              &stage_unfinished,
                                              &stage_reads_spent,
                                              &stage_no_acc_parts,
                                              &stage_forgets_parts,
                                              &stage_fails_in_part,
                                              &stage_too_many_parts,
                                              &stage_empty_part,
                                              &stage_no_such_part,
                                              NULL};

SP_PLUGIN("parts", "for tests", stages);
