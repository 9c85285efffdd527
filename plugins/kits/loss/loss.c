/* SPDX-License-Identifier: MIT
 * loss.c - ports and the call of a loss. */
#include "loss.h"

const char *const loss_nonfinite[] = {"stop", "ignore", NULL};

const sp_port loss_inputs[] = {
    {.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x ..., row-major or channels-last"},
    {.name = "labels", .dtypes = LABEL_DTYPES, .ndim = -1, .flags = SP_PORT_NOGRAD, .doc = "N x ..., class numbers"},
    {.name = NULL}};

const sp_port loss_outputs[] = {{.name = "loss",
                                 .dtypes = SP_DT(SP_F32),
                                 .ndim = 0,
                                 .flags = SP_PORT_METRIC,
                                 .doc = "mean over what counts; 0 where nothing does"},
                                {.name = "status",
                                 .dtypes = SP_DT(SP_I64),
                                 .ndim = 1,
                                 .flags = SP_PORT_STATUS | SP_PORT_NOGRAD,
                                 .doc = "the first label out of range, or a loss that is not finite"},
                                {.name = "valid",
                                 .dtypes = SP_DT(SP_I64),
                                 .ndim = 0,
                                 .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
                                 .doc = "how many labels or numbers counted; 0: the step has no gradient"},
                                {.name = "total",
                                 .dtypes = SP_DT(SP_F64),
                                 .ndim = 0,
                                 .flags = SP_PORT_TOTAL | SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
                                 .doc = "what the mean is over; of a step in shards its share of a full batch"},
                                {.name = NULL}};

void loss_outputs_plan(sp_plan *plan) {
  for (int i = LOSS_OUT_LOSS; i <= LOSS_OUT_TOTAL; i++) plan->out[i].n = 1;
  plan->out[LOSS_OUT_LOSS].spec[0] = (sp_spec){.dtype = SP_F32};
  plan->out[LOSS_OUT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  plan->out[LOSS_OUT_VALID].spec[0] = (sp_spec){.dtype = SP_I64};
  plan->out[LOSS_OUT_TOTAL].spec[0] = (sp_spec){.dtype = SP_F64};
}

void loss_job_of(loss_job *j, const sp_io *io, const loss_params *p) {
  const sp_tensor *x = &io->in[LOSS_IN_LOGITS].t[0], *y = &io->in[LOSS_IN_LABELS].t[0];
  *j = (loss_job){.x = x->data,
                  .labels = y->data,
                  .label_dtype = y->spec.dtype,
                  .ignore = p->ignore_index,
                  .weight = p->weight,
                  .stop = p->nonfinite == LOSS_STOP,
                  .step = io->step,
                  .ids = io->ids,
                  .loss = io->out[LOSS_OUT_LOSS].t[0].data,
                  .status = io->out[LOSS_OUT_STATUS].t[0].data,
                  .valid = io->out[LOSS_OUT_VALID].t[0].data,
                  .total = io->out[LOSS_OUT_TOTAL].t[0].data,
                  .scratch = io->scratch};
  logit_shape_of(&j->shape, &x->spec);
  j->values = j->shape.classes;
  if (io->din && io->din[LOSS_IN_LOGITS].n) j->g = io->din[LOSS_IN_LOGITS].t[0].data;
  j->acc = j->g && io->din_acc && io->din_acc[LOSS_IN_LOGITS] && io->din_acc[LOSS_IN_LOGITS][0];
}

int loss_floats_check(sp_ctx *ctx, const sp_spec *x, const sp_spec *given) {
  sp_spec own = target_spec(x, given);
  const sp_spec *y = &own;
  if (x->ndim < 2)
    return ctx->host->fail(ctx, SP_E_SHAPE, "the input has %d dimensions, N x C x ... is wanted", x->ndim);
  for (int i = 0; i < 2; i++) {
    int32_t order = i ? y->order : x->order;
    if (order != SP_ROW_MAJOR && order != SP_CHANNELS_LAST)
      return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "the %s is neither row-major nor channels-last in memory",
                             i ? "target" : "input");
  }
  if (y->ndim != x->ndim)
    return ctx->host->fail(ctx, SP_E_SHAPE, "the target has %d dimensions, the input %d", y->ndim, x->ndim);
  for (int d = 0; d < x->ndim; d++)
    if (y->shape[d] != x->shape[d])
      return ctx->host->fail(ctx, SP_E_SHAPE, "dimension %d of the target is %lld, of the input %lld", d,
                             (long long)y->shape[d], (long long)x->shape[d]);
  return SP_OK;
}
