/* SPDX-License-Identifier: MIT
 * cross_entropy_cuda.c - the stage `cross_entropy` on CUDA. */
#include "../../kits/cuda/check.h"
#include "cross_entropy.h"
#include "cross_entropy_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  const ce *c = self;
  logit_shape s;
  int rc = ce_plan(ctx, self, pl);
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[LOSS_IN_LOGITS].spec[0]);
  pl->scratch_bytes = cek_scratch(&s, c->class_weights != NULL);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const ce *c = self;
  loss_job j;
  int rows;
  ce_job_of(&j, c, io, &rows);
  return cuda_check(ctx, cek_loss(ctx->stream, &j, rows, &c->smooth, c->class_weights), "computing the loss");
}

SP_STAGE_CUDA(CROSS_ENTROPY_PAIR, .plan = plan, .forward = forward);
