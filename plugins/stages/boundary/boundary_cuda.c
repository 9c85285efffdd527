/* SPDX-License-Identifier: MIT
 * boundary_cuda.c - the stage `boundary` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "boundary.h"
#include "boundary_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = bnd_plan(ctx, self, pl);
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[BND_IN_LOGITS].spec[0]);
  pl->scratch_bytes = sizeof(unsigned long long) + (size_t)(2 * s.n * s.px) * sizeof(bnd_class);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const bnd_params *p = self;
  const sp_tensor *x = &io->in[BND_IN_LOGITS].t[0], *y = &io->in[BND_IN_LABELS].t[0];
  bndk_job j = {.size = bnd_size_of(p, &x->spec),
                .x = x->data,
                .labels = y->data,
                .label_dtype = y->spec.dtype,
                .ignore = p->ignore_index,
                .ids = io->ids,
                .boundaries = io->out[BND_OUT_BOUNDARIES].t[0].data,
                .status = io->out[BND_OUT_STATUS].t[0].data,
                .bad = io->scratch};
  logit_shape_of(&j.s, &x->spec);
  j.predicted = (bnd_class *)(j.bad + 1);
  j.truth = j.predicted + j.s.n * j.s.px;
  return cuda_check(ctx, bndk_count(ctx->stream, &j), "counting boundaries");
}

SP_STAGE_CUDA(BOUNDARY_PAIR, .plan = plan, .forward = forward);
