/* SPDX-License-Identifier: MIT
 * elastic_cuda.c - the stage `elastic` on CUDA. */
#include "../../kits/cuda/check.h"
#include "elastic_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const elastic_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const float *given = aug_given(ctx, io, "displacements", &rc);
  if (rc) return rc;
  elastic_call c = {.dice = aug_dice_of(io, &p->warp.draws),
                    .range = elastic_range_of(p, jobs.job[0].h, jobs.job[0].w),
                    .how = warp_how_of(io, &p->warp),
                    .given = given,
                    .told = io->out[AUG_DRAWN].t->data,
                    .scratch = io->scratch};
  elastic_kernel x = {0}, y = {0};
  if (!given) {
    elastic_kernel_of(&x, p, 0);
    elastic_kernel_of(&y, p, 1);
  }
  return cuda_check(ctx, elastic_launch(ctx->stream, &jobs, &c, &x, &y), "moving pixels");
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int64_t h, w;
  int rc = elastic_check(ctx, self, pl, &h, &w);
  if (rc) return rc;
  if (!pl->in[AUG_DRAWN].n)
    pl->scratch_bytes = (size_t)(pl->in[AUG_IMAGES].spec->shape[0] * h * w) * 2 * 2 * sizeof(float);
  return SP_OK;
}

AUG_CUDA_STAGE(elastic, "elastic", ELASTIC_DOC, SP_STAGE_STOCHASTIC, .create = stateless_create,
               .destroy = stateless_destroy, .plan = plan, .forward = forward);
