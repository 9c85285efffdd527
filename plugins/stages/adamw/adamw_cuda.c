/* SPDX-License-Identifier: MIT
 * adamw_cuda.c - the stage `adamw` on CUDA. */
#include "../../kits/optim/optim_cuda.h"
#include "adamw.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  adamw *a = self;
  int rc = adamw_plan(ctx, a, pl, OPK_CHUNK);
  pl->scratch_bytes = rc ? 0 : optim_cuda_scratch(&a->o);
  return rc;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const adamw *a = self;
  double b1 = a->p->betas.v[0], b2 = a->p->betas.v[1];
  opk_rules rules = {.b1 = b1, .b2 = b2, .weight_decay = a->p->weight_decay};
  opk_adam_rule rule = {.b1 = (float)b1,
                        .b2 = (float)b2,
                        .c1 = (float)(1 - b1),
                        .c2 = (float)(1 - b2),
                        .eps = (float)a->p->eps,
                        .clips = a->p->common.clip_norm > 0,
                        .amsgrad = a->p->amsgrad};
  return optim_cuda_update(ctx, &a->o, io, &rules, adamwk_update, &rule);
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_cuda_survey(ctx, &((adamw *)self)->o, io); }

SP_STAGE_CUDA(ADAMW_PAIR, .plan = plan, .forward = forward, .survey = survey);
