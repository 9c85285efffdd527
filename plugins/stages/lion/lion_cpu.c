/* SPDX-License-Identifier: MIT
 * lion_cpu.c - the stage `lion` on the CPU. */
#include <math.h>

#include "../../kits/optim/optim_cpu.h"
#include "lion.h"

/* Of a group. */
typedef struct update_pace {
  float shrink, lr; /* shrink: 1 - lr * weight_decay */
} update_pace;

typedef struct update_rule {
  update_pace pace[SP_MAX_GROUPS];
  lion_rule of;
  float clip;
} update_rule;

/* Near 0 a rounding decides the sign: products are rounded before they are added, as in the authors' code. */
OPTIM_INLINE update_body(OPTIM_FN_ARGS) {
  const update_rule *r = rule;
  float shrink = r->pace[at->group].shrink, lr = -r->pace[at->group].lr, clip = r->clip;
  float b1 = r->of.b1, b2 = r->of.b2, c1 = r->of.c1, c2 = r->of.c2;
  float *restrict mean = m[0];
  unsigned bad = 0;
  for (int64_t i = 0; i < n; i++) {
    float d = g[i] * clip, way = b1 * mean[i] + c1 * d;
    bad |= optim_bad(g[i]);
    p[i] = fmaf(lr, (float)((way > 0) - (way < 0)), p[i] * shrink);
    mean[i] = fmaf(c2, d, b2 * mean[i]);
  }
  return bad;
}

OPTIM_BEST(update)

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  lion *l = self;
  int rc = lion_plan(ctx, l, pl, OPTIM_CHUNK);
  pl->scratch_bytes = rc ? 0 : optim_scratch(&l->o);
  return rc;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const lion *l = self;
  optim_pass pass;
  update_rule r = {.of = lion_rule_of(l)};
  int rc = optim_begin(ctx, &l->o, io, &pass);
  if (rc || pass.skip) return rc;
  r.clip = r.of.clips ? pass.clip : 1;
  optim_count(&l->o, io);
  for (uint32_t k = 0; k < l->o.n_groups; k++) {
    double own = optim_lr(&l->o, k, io->step->live[0]);
    r.pace[k] = (update_pace){.shrink = (float)(1 - own * optim_decay(&l->o, k, l->p->weight_decay)), .lr = (float)own};
  }
  return optim_update(ctx, &l->o, io, &pass, update_best(), &r);
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_survey(ctx, &((lion *)self)->o, io); }

SP_STAGE_CPU(LION_PAIR, .plan = plan, .forward = forward, .survey = survey);
