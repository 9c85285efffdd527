/* SPDX-License-Identifier: MIT
 * confusion_cuda.c - the stage `confusion` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "confusion.h"
#include "confusion_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  (void)self;
  pl->scratch_bytes = sizeof(unsigned long long);
  return conf_plan(ctx, pl, &s);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const conf_params *p = self;
  const sp_tensor *x = &io->in[CONF_IN_LOGITS].t[0], *y = &io->in[CONF_IN_LABELS].t[0];
  cfk_job j = {.x = x->data,
               .labels = y->data,
               .label_dtype = y->spec.dtype,
               .ignore = p->ignore_index,
               .ids = io->ids,
               .counts = io->out[CONF_OUT_COUNTS].t[0].data,
               .status = io->out[CONF_OUT_STATUS].t[0].data,
               .bad = io->scratch};
  logit_shape_of(&j.shape, &x->spec);
  return cuda_check(ctx, cfk_count(ctx->stream, &j), "counting pairs");
}

static const sp_stage_type conf_type = {.size = sizeof(sp_stage_type),
                                        .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                        .name = "confusion",
                                        .device = "cuda",
                                        .doc = CONF_DOC,
                                        .inputs = conf_inputs,
                                        .outputs = conf_outputs,
                                        .params = conf_param_table,
                                        .params_size = sizeof(conf_params),
                                        .status_doc = CONF_STATUS_DOC,
                                        .create = stateless_create,
                                        .destroy = stateless_destroy,
                                        .plan = plan,
                                        .forward = forward};
static const sp_stage_type *const stages[] = {&conf_type, NULL};

SP_PLUGIN("confusion_cuda", "Confusion counts, on CUDA", stages);
