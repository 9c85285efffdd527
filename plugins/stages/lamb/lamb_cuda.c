/* SPDX-License-Identifier: MIT
 * lamb_cuda.c - the stage `lamb` on CUDA. */
#include "../../kits/optim/optim_cuda.h"
#include "lamb.h"

static size_t squares_bytes(const optim *o) { return 2 * (size_t)optim_chunks(o) * sizeof(double); }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  lamb *l = self;
  int rc = lamb_plan(ctx, l, pl, OPK_CHUNK);
  if (rc) return rc;
  pl->scratch_bytes = optim_cuda_scratch(&l->o) + squares_bytes(&l->o) + OPK_LIST * sizeof(float);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const lamb *l = self;
  const lamb_params *p = l->p;
  char *more = (char *)io->scratch + optim_cuda_scratch(&l->o);
  opk_rules rules = {.b1 = p->correct_bias ? p->betas.v[0] : 0,
                     .b2 = p->correct_bias ? p->betas.v[1] : 0,
                     .weight_decay = p->weight_decay};
  lamb_rule rule = lamb_rule_of(l);
  rule.squares = (double *)more;
  rule.trust = (float *)(more + squares_bytes(&l->o));
  return optim_cuda_update(ctx, &l->o, io, &rules, lambk_update, &rule);
}

SP_STAGE_CUDA(LAMB_PAIR, .plan = plan, .forward = forward);
