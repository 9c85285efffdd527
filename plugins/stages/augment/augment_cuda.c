/* SPDX-License-Identifier: MIT
 * augment_cuda.c - the stage `augment` on CUDA. */
#include "../../kits/cuda/check.h"
#include "augment_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const augment_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  augment_call c = {.dice = aug_dice_of(io, &p->crop.draws),
                    .how = augment_how_of(p, jobs.job),
                    .boxes = io->out[AUGMENT_BOXES].t->data,
                    .angles = io->out[AUGMENT_ANGLES].t->data,
                    .sigmas = io->out[AUGMENT_SIGMAS].t->data,
                    .status = io->out[AUGMENT_STATUS].t->data};
  int rc;
  c.how.turn.mask_fill = aug_mask_fill(io, p->rotate.mask_fill);
  c.given.boxes = aug_given_on(ctx, io, AUGMENT_BOXES, "boxes", &rc);
  if (!rc) c.given.angles = aug_given_on(ctx, io, AUGMENT_ANGLES, "angles", &rc);
  if (!rc && c.how.blurs) c.given.sigmas = aug_given_on(ctx, io, AUGMENT_SIGMAS, "sigmas", &rc);
  if (rc) return rc;
  norm_terms_of(&p->norm, &c.norm);
  return cuda_check(ctx, augment_launch(ctx->stream, &jobs, &c), "augmenting");
}

AUG_CUDA_STAGE(augment, "augment", AUGMENT_DOC, SP_STAGE_STOCHASTIC, .status_doc = AUGMENT_STATUS_DOC,
               .create = stateless_create, .destroy = stateless_destroy, .plan = augment_plan, .forward = forward);
