/* SPDX-License-Identifier: MIT
 * updates.c - optimizers that say that their update may be made in several calls. The first one keeps the rules, the
 * others break one each, which the conformance suite must name. */
#include <spcore/plugin.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
  GOOD,
  COUNTS,  /* every call counts a step */
  EMPTIES, /* every call empties the status */
  MEAN,    /* it looks at all gradients that are there */
  LATE,    /* the first call alone counts, but it counts behind its update */
  GROUPS,  /* it keeps the rules, and honours groups */
  NONE,    /* it ignores them, and says that it does not */
  FIRST    /* it takes the first group for all */
};

#define MOST 8

typedef struct optimizer {
  int kind;
  sp_weight w;
  float lr[MOST]; /* factors */
} optimizer;

static int make(sp_ctx *ctx, int kind, void **self) {
  optimizer *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory");
  s->kind = kind;
  *self = s;
  return SP_OK;
}

static int u_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  optimizer *s = self;
  const sp_speclist *in = &plan->in[0];
  if (in->n > MOST) return ctx->host->fail(ctx, SP_E_RANGE, "%u gradients", in->n);
  plan->out[0].n = in->n;
  memcpy(plan->out[0].spec, in->spec, in->n * sizeof *in->spec);
  plan->out[1].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  s->w = (sp_weight){.name = "step", .spec = {.dtype = SP_I64}, .flags = SP_WEIGHT_STATE};
  plan->weights = &s->w;
  plan->n_weights = 1;
  plan->separate = 1;
  plan->grouped = s->kind >= GROUPS;
  for (uint32_t i = 0; i < in->n; i++) {
    bool own = plan->n_groups && (s->kind == GROUPS || s->kind == FIRST);
    s->lr[i] = own ? (float)plan->groups[s->kind == FIRST ? 0 : plan->group_of[i]].lr : 1;
  }
  return SP_OK;
}

static int64_t count(const sp_spec *s) {
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->shape[d];
  return n;
}

static float first_of_all(const sp_io *io) {
  float sum = 0;
  for (uint32_t i = 0; i < io->in[0].n; i++)
    if (io->in[0].t[i].data) sum += *(const float *)io->in[0].t[i].data;
  return sum;
}

static int u_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const optimizer *s = self;
  int64_t *step = io->weights[0].data, *status = io->out[1].t[0].data;
  int64_t one = !io->part || s->kind == COUNTS;
  (void)ctx;
  if (!io->part || s->kind == EMPTIES) memset(status, 0, 4 * sizeof *status);
  if (s->kind != LATE) *step += one;
  float rate = 1 / (float)(1 + *step), beside = s->kind == MEAN ? first_of_all(io) : 0;
  for (uint32_t i = 0; i < io->in[0].n; i++) {
    const float *g = io->in[0].t[i].data;
    float *p = io->out[0].t[i].data;
    for (int64_t k = 0; g && k < count(&io->in[0].t[i].spec); k++) {
      if (!isfinite(g[k])) status[0] = SP_E_DATA;
      p[k] -= s->lr[i] * rate * (g[k] + beside);
    }
  }
  if (s->kind == LATE) *step += one;
  return SP_OK;
}

static const sp_port u_in[] = {
    {.name = "gradients", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_LIST | SP_PORT_NOGRAD, .doc = "of all"},
    {.name = NULL}};
static const sp_port u_out[] = {
    {.name = "weights", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_LIST | SP_PORT_NOGRAD, .doc = "updated"},
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
                                           .inputs = u_in,                           \
                                           .outputs = u_out,                         \
                                           .status_doc = "a gradient is not finite", \
                                           .create = create_##id,                    \
                                           .destroy = free,                          \
                                           .plan = u_plan,                           \
                                           .forward = u_forward};

STAGE(GOOD, in_calls)
STAGE(COUNTS, counts_each)
STAGE(EMPTIES, empties_status)
STAGE(MEAN, looks_at_all)
STAGE(LATE, counts_late)
STAGE(GROUPS, honours_groups)
STAGE(NONE, ignores_groups)
STAGE(FIRST, one_group_for_all)

static const sp_stage_type *const stages[] = {&stage_in_calls,     &stage_counts_each, &stage_empties_status,
                                              &stage_looks_at_all, &stage_counts_late, &stage_honours_groups,
                                              &stage_ignores_groups, &stage_one_group_for_all, NULL};

SP_PLUGIN("updates", "for tests", stages);
