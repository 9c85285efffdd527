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
  logit_shape_of(&s, &pl->in[CE_IN_LOGITS].spec[0]);
  pl->scratch_bytes = cek_scratch(&s, c->class_weights != NULL);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const ce *c = self;
  const sp_tensor *x = &io->in[CE_IN_LOGITS].t[0], *y = &io->in[CE_IN_LABELS].t[0];
  cek_job j = {.x = x->data,
               .labels = y->data,
               .label_dtype = y->spec.dtype,
               .ignore = c->p->ignore_index,
               .weight = c->p->weight,
               .smooth = c->smooth,
               .stop = c->p->nonfinite == CE_STOP,
               .step = io->step,
               .ids = io->ids,
               .loss = io->out[CE_OUT_LOSS].t[0].data,
               .status = io->out[CE_OUT_STATUS].t[0].data,
               .valid = io->out[CE_OUT_VALID].t[0].data,
               .scratch = io->scratch};
  logit_shape_of(&j.shape, &x->spec);
  if (io->din && io->din[CE_IN_LOGITS].n) j.g = io->din[CE_IN_LOGITS].t[0].data;
  j.acc = j.g && io->din_acc && io->din_acc[CE_IN_LOGITS] && io->din_acc[CE_IN_LOGITS][0];
  return cuda_check(ctx, cek_loss(ctx->stream, &j, c->class_weights), "computing the loss");
}

static const sp_stage_type ce_type = {.size = sizeof(sp_stage_type),
                                      .flags = SP_STAGE_LOSS | SP_STAGE_CAPTURABLE,
                                      .name = "cross_entropy",
                                      .device = "cuda",
                                      .doc = CE_DOC,
                                      .inputs = ce_inputs,
                                      .outputs = ce_outputs,
                                      .params = ce_param_table,
                                      .params_size = sizeof(ce_params),
                                      .status_doc = CE_STATUS_DOC,
                                      .create = ce_create,
                                      .destroy = ce_destroy,
                                      .plan = plan,
                                      .forward = forward};
static const sp_stage_type *const stages[] = {&ce_type, NULL};

SP_PLUGIN("cross_entropy_cuda", "Cross-entropy loss, on CUDA", stages);
