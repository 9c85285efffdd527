/* SPDX-License-Identifier: MIT
 * adamw_cpu.c - the stage `adamw` on the CPU. */
#include <math.h>
#include <stdbool.h>

#include "../../kits/optim/optim_cpu.h"
#include "adamw.h"

/* Of a group. */
typedef struct update_pace {
  float shrink, rate, root; /* 1 - lr * weight_decay, lr / (1 - b1^t), sqrt(1 - b2^t) */
} update_pace;

typedef struct update_rule {
  update_pace pace[SP_MAX_GROUPS];
  float b1, b2, c1, c2; /* c: 1 - b */
  float eps, clip;
} update_rule;

static inline __attribute__((always_inline)) unsigned body(bool largest, OPTIM_FN_ARGS) {
  const update_rule *r = rule;
  float shrink = r->pace[at->group].shrink, rate = -r->pace[at->group].rate;
  float b1 = r->b1, b2 = r->b2, c1 = r->c1, c2 = r->c2, root = r->pace[at->group].root, eps = r->eps, clip = r->clip;
  float *restrict mean = m[ADAMW_MEAN], *restrict square = m[ADAMW_SQUARE], *restrict most = m[ADAMW_LARGEST];
  unsigned bad = 0;
  for (int64_t i = 0; i < n; i++) {
    float d = g[i] * clip;
    bad |= optim_bad(g[i]);
    float mi = fmaf(c1, d, b1 * mean[i]);
    float vi = fmaf(c2 * d, d, b2 * square[i]);
    mean[i] = mi;
    square[i] = vi;
    if (largest) {
      vi = most[i] > vi ? most[i] : vi;
      most[i] = vi;
    }
    p[i] = fmaf(rate, mi / (__builtin_sqrtf(vi) / root + eps), p[i] * shrink);
  }
  return bad;
}

OPTIM_INLINE update_body(OPTIM_FN_ARGS) { return body(false, rule, at, g, p, m, n); }
OPTIM_INLINE amsgrad_body(OPTIM_FN_ARGS) { return body(true, rule, at, g, p, m, n); }

OPTIM_BEST(update)
OPTIM_BEST(amsgrad)

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  adamw *a = self;
  int rc = adamw_plan(ctx, a, pl, OPTIM_CHUNK);
  pl->scratch_bytes = rc ? 0 : optim_scratch(&a->o);
  return rc;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const adamw *a = self;
  const adamw_params *p = a->p;
  double b1 = p->betas.v[0], b2 = p->betas.v[1];
  optim_pass pass;
  update_rule r = {
      .b1 = (float)b1, .b2 = (float)b2, .c1 = (float)(1 - b1), .c2 = (float)(1 - b2), .eps = (float)p->eps};
  int rc = optim_begin(ctx, &a->o, io, &pass);
  if (rc || pass.skip) return rc;
  r.clip = p->common.clip_norm > 0 ? pass.clip : 1;
  optim_count(&a->o, io);
  for (uint32_t k = 0; k < a->o.n_groups; k++) {
    double own = optim_lr(&a->o, k, io->step->live[0]), t = (double)optim_updates(&a->o, io, k);
    r.pace[k] = (update_pace){.shrink = (float)(1 - own * optim_decay(&a->o, k, p->weight_decay)),
                              .rate = (float)(own / (1 - pow(b1, t))),
                              .root = (float)sqrt(1 - pow(b2, t))};
  }
  return optim_update(ctx, &a->o, io, &pass, p->amsgrad ? amsgrad_best() : update_best(), &r);
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_survey(ctx, &((adamw *)self)->o, io); }

SP_STAGE_CPU(ADAMW_PAIR, .plan = plan, .forward = forward, .survey = survey);
