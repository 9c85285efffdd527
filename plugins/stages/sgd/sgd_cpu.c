/* SPDX-License-Identifier: MIT
 * sgd_cpu.c - the stage `sgd` on the CPU. */
#include <math.h>
#include <stdbool.h>

#include "../../kits/optim/optim_cpu.h"
#include "sgd.h"

/* Of a group. */
typedef struct update_pace {
  float lr, decay, keep; /* keep: 1 - dampening, 1 in the first step */
} update_pace;

typedef struct update_rule {
  update_pace pace[SP_MAX_GROUPS];
  float mu, clip;
  bool momentum, nesterov, clips;
} update_rule;

/* Written with fmaf throughout, so that every processor gives the bits that PyTorch's kernels give. */
OPTIM_INLINE update_body(OPTIM_FN_ARGS) {
  const update_rule *r = rule;
  unsigned bad = 0;
  float lr = -r->pace[at->group].lr, decay = r->pace[at->group].decay, mu = r->mu, keep = r->pace[at->group].keep,
        clip = r->clip;
  if (!r->momentum && !r->clips && decay == 0) {
    for (int64_t i = 0; i < n; i++) {
      bad |= optim_bad(g[i]);
      p[i] = fmaf(lr, g[i], p[i]);
    }
    return bad;
  }
  bool momentum = r->momentum, nesterov = r->nesterov, clips = r->clips;
  float *restrict buf = m[0];
  for (int64_t i = 0; i < n; i++) {
    float d = clips ? g[i] * clip : g[i];
    bad |= optim_bad(g[i]);
    if (decay != 0) d = fmaf(decay, p[i], d);
    if (momentum) {
      float b = fmaf(keep, d, mu * buf[i]);
      buf[i] = b;
      d = nesterov ? fmaf(mu, b, d) : b;
    }
    p[i] = fmaf(lr, d, p[i]);
  }
  return bad;
}

OPTIM_BEST(update)

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  sgd *s = self;
  int rc = sgd_plan(ctx, s, pl, OPTIM_CHUNK);
  pl->scratch_bytes = rc ? 0 : optim_scratch(&s->o);
  return rc;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sgd *s = self;
  const sgd_params *p = s->p;
  optim_pass pass;
  update_rule r = {.mu = (float)p->momentum,
                   .momentum = p->momentum != 0,
                   .nesterov = p->nesterov,
                   .clips = p->common.clip_norm > 0};
  int rc = optim_begin(ctx, &s->o, io, &pass);
  if (rc || pass.skip) return rc;
  r.clip = pass.clip;
  optim_count(&s->o, io);
  for (uint32_t k = 0; k < s->o.n_groups; k++)
    r.pace[k] = (update_pace){.lr = (float)optim_lr(&s->o, k, io->step->live[0]),
                              .decay = (float)optim_decay(&s->o, k, p->weight_decay),
                              .keep = optim_updates(&s->o, io, k) > 1 ? (float)(1 - p->dampening) : 1};
  return optim_update(ctx, &s->o, io, &pass, update_best(), &r);
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_survey(ctx, &((sgd *)self)->o, io); }

SP_STAGE_CPU(SGD_PAIR, .plan = plan, .forward = forward, .survey = survey);
