/* SPDX-License-Identifier: MIT
 * erase_cuda.c - the stage `erase` on CUDA. */
#include "../../kits/cuda/check.h"
#include "erase_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const erase_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const erase_box *given = aug_given(ctx, io, "boxes", &rc);
  if (!rc) rc = erase_check_ids(ctx, p, io);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->draws);
  erase_range range = erase_range_of(p, jobs.job[0].h, jobs.job[0].w);
  erase_how how = erase_how_of(io, p);
  return cuda_check(ctx,
                    erase_launch(ctx->stream, &jobs, &dice, &range, &how, given, io->out[AUG_DRAWN].t->data,
                                 io->scratch, io->out[AUG_STATUS].t->data),
                    "erasing");
}

AUG_CUDA_STAGE(erase, "erase", ERASE_DOC, SP_STAGE_STOCHASTIC, .status_doc = ERASE_STATUS_DOC,
               .create = stateless_create, .destroy = stateless_destroy, .plan = erase_plan, .forward = forward);
