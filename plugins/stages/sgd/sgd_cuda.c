/* SPDX-License-Identifier: MIT
 * sgd_cuda.c - the stage `sgd` on CUDA. */
#include "../../kits/optim/optim_cuda.h"
#include "sgd.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  sgd *s = self;
  int rc = sgd_plan(ctx, s, pl, OPK_CHUNK);
  pl->scratch_bytes = rc ? 0 : optim_cuda_scratch(&s->o);
  return rc;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sgd *s = self;
  opk_rules rules = {.dampening = s->p->dampening, .weight_decay = s->p->weight_decay};
  sgd_rule rule = {.mu = (float)s->p->momentum,
                   .momentum = s->p->momentum != 0,
                   .nesterov = s->p->nesterov,
                   .clips = s->p->common.clip_norm > 0};
  return optim_cuda_update(ctx, &s->o, io, &rules, sgdk_update, &rule);
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_cuda_survey(ctx, &((sgd *)self)->o, io); }

SP_STAGE_CUDA(SGD_PAIR, .plan = plan, .forward = forward, .survey = survey);
