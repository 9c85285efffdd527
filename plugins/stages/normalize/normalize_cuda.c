/* SPDX-License-Identifier: MIT
 * normalize_cuda.c - the stage `normalize` on CUDA. */
#include "../../kits/cuda/check.h"
#include "normalize_kernels.h"

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  norm_terms t;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  norm_terms_of(self, &t);
  return cuda_check(ctx, norm_launch(ctx->stream, &jobs, &t), "normalizing");
}

static const sp_stage_type norm_type = {.size = sizeof(sp_stage_type),
                                        .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                        .name = "normalize",
                                        .device = "cuda",
                                        .doc = NORM_DOC,
                                        .inputs = norm_inputs,
                                        .outputs = norm_outputs,
                                        .params = norm_param_table,
                                        .params_size = sizeof(norm_params),
                                        .create = stateless_create,
                                        .destroy = stateless_destroy,
                                        .plan = norm_plan,
                                        .forward = forward};
static const sp_stage_type *const stages[] = {&norm_type, NULL};

SP_PLUGIN("normalize_cuda", NORM_DOC, stages);
