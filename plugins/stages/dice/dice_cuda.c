/* SPDX-License-Identifier: MIT
 * dice_cuda.c - the stage `dice` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "dice.h"
#include "dice_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = dice_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[LOSS_IN_LOGITS].spec[0]);
  pl->scratch_bytes = dicek_scratch(&s);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const dice_params *p = self;
  loss_job j;
  loss_job_of(&j, io, &p->l);
  return cuda_check(ctx, dicek_loss(ctx->stream, &j, p->smooth, p->eps), "computing the loss");
}

SP_STAGE_CUDA(DICE_PAIR, .plan = plan, .forward = forward);
