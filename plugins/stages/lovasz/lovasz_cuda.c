/* SPDX-License-Identifier: MIT
 * lovasz_cuda.c - the stage `lovasz` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "lovasz.h"
#include "lovasz_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = lovasz_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[LOSS_IN_LOGITS].spec[0]);
  pl->scratch_bytes = lovaszk_scratch(&s);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const lovasz_params *p = self;
  loss_job j;
  lovasz_job(&j, p, io);
  return cuda_check(ctx, lovaszk_loss(ctx->stream, &j, p->over == LOVASZ_ALL), "computing the loss");
}

SP_STAGE_CUDA(LOVASZ_PAIR, .plan = plan, .forward = forward);
