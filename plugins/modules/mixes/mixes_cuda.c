/* SPDX-License-Identifier: MIT
 * mixes_cuda.c - `mixup`, `cutmix` and `mixup_or_cutmix` on CUDA. */
#include "../../kits/cuda/check.h"
#include "mixes_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const mixes_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const mixes_row *given = aug_given(ctx, io, "mixes", &rc);
  if (rc) return rc;
  aug_dice dice = aug_dice_of(io, &p->draws);
  mixes_range range = mixes_range_of(p, &jobs);
  mixes_labels labels = mixes_labels_of(io, p, &jobs);
  return cuda_check(ctx,
                    mixes_launch(ctx->stream, &jobs, &dice, &range, &labels, given, io->out[AUG_DRAWN].t->data,
                                 io->scratch, io->out[AUG_STATUS].t->data),
                    "mixing images");
}

#define TYPE(id, words) MIXES_TYPE(id, words, "cuda")
MIXES_STAGES(TYPE)
static const sp_stage_type *const stages[] = {MIXES_STAGES(MIXES_POINTER) NULL};

SP_PLUGIN("mixes_cuda", "Images mixed with others of the batch, labels along, on CUDA", stages);
