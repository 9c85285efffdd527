/* SPDX-License-Identifier: MIT
 * resize_cuda.c - the stage `resize` on CUDA. */
#include "../../kits/cuda/check.h"
#include "resize_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  int64_t h, w;
  return resize_check(ctx, self, plan, &h, &w);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const resize_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  return cuda_check(ctx, resize_launch(ctx->stream, &jobs, p->antialias), "resizing");
}

static const sp_stage_type resize_type = {.size = sizeof(sp_stage_type),
                                          .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                          .name = "resize",
                                          .device = "cuda",
                                          .doc = RESIZE_DOC,
                                          .inputs = resize_inputs,
                                          .outputs = resize_outputs,
                                          .params = resize_param_table,
                                          .params_size = sizeof(resize_params),
                                          .create = stateless_create,
                                          .destroy = stateless_destroy,
                                          .plan = plan,
                                          .forward = forward};
static const sp_stage_type *const stages[] = {&resize_type, NULL};

SP_PLUGIN("resize_cuda", RESIZE_DOC, stages);
