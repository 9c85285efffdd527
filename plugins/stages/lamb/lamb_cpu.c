/* SPDX-License-Identifier: MIT
 * lamb_cpu.c - the stage `lamb` on the CPU. */
#include <math.h>
#include <stdbool.h>

#include "../../kits/optim/optim_cpu.h"
#include "lamb.h"

#define LANES 16

/* Of a group. */
typedef struct update_pace {
  float lr, decay, bias, root; /* 1 - b1^t, sqrt(1 - b2^t) */
} update_pace;

typedef struct update_rule {
  update_pace pace[SP_MAX_GROUPS];
  lamb_rule of;
  float clip;
  double *squares; /* [chunks][2] of weights, and of steps */
  float *trust;    /* [tensors] */
} update_rule;

static inline __attribute__((always_inline)) float step_of(const update_rule *r, const update_pace *pace, float p,
                                                           float mean, float square) {
  float step = mean / pace->bias / (__builtin_sqrtf(square) / pace->root + r->of.eps);
  return fmaf(pace->decay, p, step);
}

/* Moments, and the squares of a chunk, in an order of their own. */
OPTIM_INLINE look_body(OPTIM_FN_ARGS) {
  const update_rule *r = rule;
  const update_pace pace = r->pace[at->group];
  float b1 = r->of.b1, b2 = r->of.b2, c1 = r->of.c1, c2 = r->of.c2, clip = r->clip;
  float *restrict mean = m[LAMB_MEAN], *restrict square = m[LAMB_SQUARE];
  double weights[LANES] = {0}, steps[LANES] = {0};
  unsigned bad = 0;
  for (int64_t i = 0; i < n; i += LANES) {
    int lanes = n - i < LANES ? (int)(n - i) : LANES;
    for (int l = 0; l < lanes; l++) {
      int64_t k = i + l;
      float d = g[k] * clip;
      bad |= optim_bad(g[k]);
      mean[k] = fmaf(c1, d, b1 * mean[k]);
      square[k] = fmaf(c2 * d, d, b2 * square[k]);
      float step = step_of(r, &pace, p[k], mean[k], square[k]);
      weights[l] += (double)p[k] * p[k];
      steps[l] += (double)step * step;
    }
  }
  for (int l = 1; l < LANES; l++) weights[0] += weights[l], steps[0] += steps[l];
  r->squares[2 * at->chunk] = weights[0];
  r->squares[2 * at->chunk + 1] = steps[0];
  return bad;
}

OPTIM_INLINE update_body(OPTIM_FN_ARGS) {
  const update_rule *r = rule;
  const update_pace pace = r->pace[at->group];
  float lr = -pace.lr, trust = r->trust[at->tensor];
  const float *restrict mean = m[LAMB_MEAN], *restrict square = m[LAMB_SQUARE];
  for (int64_t i = 0; i < n; i++) p[i] = fmaf(lr, step_of(r, &pace, p[i], mean[i], square[i]) * trust, p[i]);
  (void)g;
  return 0;
}

OPTIM_BEST(look)
OPTIM_BEST(update)

static float ratio(double weights, double steps, bool at_most_1) {
  double r = weights > 0 && steps > 0 ? sqrt(weights) / sqrt(steps) : 1;
  return at_most_1 && r > 1 ? 1 : (float)r;
}

/* In each tensor's step, by its chunks in their order. */
static void trust(const optim *o, const sp_io *io, update_rule *r) {
  for (uint32_t i = 0; i < o->n; i++) {
    double weights = 0, steps = 0;
    r->trust[i] = 1;
    if (!optim_is_here(io, i) || !(r->of.always_adapt || r->pace[o->group_of[i]].decay != 0)) continue;
    for (int64_t k = o->first[i]; k < o->first[i + 1]; k++)
      weights += r->squares[2 * k], steps += r->squares[2 * k + 1];
    r->trust[i] = ratio(weights, steps, r->of.trust_clip);
  }
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  lamb *l = self;
  int rc = lamb_plan(ctx, l, pl, OPTIM_CHUNK);
  if (rc) return rc;
  pl->scratch_bytes = optim_scratch(&l->o) + 2 * (size_t)optim_chunks(&l->o) * sizeof(double) + l->o.n * sizeof(float);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const lamb *l = self;
  const optim *o = &l->o;
  const lamb_params *p = l->p;
  double b1 = p->betas.v[0], b2 = p->betas.v[1];
  optim_pass pass;
  update_rule r = {.of = lamb_rule_of(l), .squares = (double *)((char *)io->scratch + optim_scratch(o))};
  r.trust = (float *)(r.squares + 2 * optim_chunks(o));
  int rc = optim_begin(ctx, o, io, &pass);
  if (rc || pass.skip) return rc;
  r.clip = r.of.clips ? pass.clip : 1;
  optim_count(o, io);
  for (uint32_t k = 0; k < o->n_groups; k++) {
    double t = (double)optim_updates(o, io, k);
    r.pace[k] = (update_pace){.lr = (float)optim_lr(o, k, io->step->live[0]),
                              .decay = (float)optim_decay(o, k, p->weight_decay),
                              .bias = p->correct_bias ? (float)(1 - pow(b1, t)) : 1,
                              .root = p->correct_bias ? (float)sqrt(1 - pow(b2, t)) : 1};
  }
  rc = optim_visit(ctx, o, io, &pass, look_best(), &r);
  if (rc) return rc;
  trust(o, io, &r);
  return optim_update(ctx, o, io, &pass, update_best(), &r);
}

SP_STAGE_CPU(LAMB_PAIR, .plan = plan, .forward = forward);
