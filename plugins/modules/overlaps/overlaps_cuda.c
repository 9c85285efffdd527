/* SPDX-License-Identifier: MIT
 * overlaps_cuda.c - the losses `dice`, `jaccard` and `tversky` on CUDA. */
#include "../../kits/cuda/check.h"
#include "overlaps.h"
#include "overlaps_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = overlap_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[LOSS_IN_LOGITS].spec[0]);
  pl->scratch_bytes = overlapk_scratch(&s);
  return SP_OK;
}

static int run(sp_ctx *ctx, const overlap_params *p, const sp_io *io, const overlap_form *form) {
  loss_job j;
  loss_job_of(&j, io, &p->l);
  return cuda_check(ctx, overlapk_loss(ctx->stream, &j, form), "computing the loss");
}

#define TYPE(id, words) OVERLAPS_TYPE(id, words, "cuda", SP_STAGE_CAPTURABLE, run)
OVERLAPS_STAGES(TYPE)
static const sp_stage_type *const stages[] = {OVERLAPS_STAGES(OVERLAPS_POINTER) NULL};

SP_PLUGIN("overlaps_cuda", "Losses of overlaps, on CUDA", stages);
