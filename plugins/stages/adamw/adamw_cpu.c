/* SPDX-License-Identifier: MIT
 * adamw_cpu.c - the stage `adamw` on the CPU. */
#include "../../kits/optim/optim_adam.h"
#include "adamw.h"

OPTIM_INLINE update_body(OPTIM_FN_ARGS) { return optim_adam_body(rule, false, at, g, p, m, n); }
OPTIM_INLINE amsgrad_body(OPTIM_FN_ARGS) { return optim_adam_body(rule, true, at, g, p, m, n); }

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
  optim_pass pass;
  optim_adam r;
  int rc = optim_begin(ctx, &a->o, io, &pass);
  if (rc || pass.skip) return rc;
  r.clip = p->common.clip_norm > 0 ? pass.clip : 1;
  optim_count(&a->o, io);
  optim_adam_set(&r, &a->o, io, io->step->live[0], &p->betas, p->eps, p->weight_decay);
  return optim_update(ctx, &a->o, io, &pass, p->amsgrad ? amsgrad_best() : update_best(), &r);
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_survey(ctx, &((adamw *)self)->o, io); }

SP_STAGE_CPU(ADAMW_PAIR, .plan = plan, .forward = forward, .survey = survey);
