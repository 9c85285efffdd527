/* SPDX-License-Identifier: MIT
 * lion_cuda.c - the stage `lion` on CUDA. */
#include "../../kits/optim/optim_cuda.h"
#include "lion.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  lion *l = self;
  int rc = lion_plan(ctx, l, pl, OPK_CHUNK);
  pl->scratch_bytes = rc ? 0 : optim_cuda_scratch(&l->o);
  return rc;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const lion *l = self;
  opk_rules rules = {.weight_decay = l->p->weight_decay};
  lion_rule rule = lion_rule_of(l);
  return optim_cuda_update(ctx, &l->o, io, &rules, lionk_update, &rule);
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_cuda_survey(ctx, &((lion *)self)->o, io); }

SP_STAGE_CUDA(LION_PAIR, .plan = plan, .forward = forward, .survey = survey);
