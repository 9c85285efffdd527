/* SPDX-License-Identifier: MIT
 * accuracy.c - how often the label is the class of the largest logit, or among the k largest: ports, parameters and
 * checks. */
#include "accuracy.h"

int acc_plan(sp_ctx *ctx, sp_plan *plan) {
  int rc = labels_check(ctx, &plan->in[ACC_IN_LOGITS].spec[0], &plan->in[ACC_IN_LABELS].spec[0]);
  if (rc) return rc;
  for (int i = ACC_OUT_TOP1; i <= ACC_OUT_STATUS; i++) {
    plan->out[i].n = 1;
    plan->out[i].spec[0] = (sp_spec){.dtype = SP_I64};
  }
  plan->out[ACC_OUT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  return SP_OK;
}

const sp_port acc_inputs[] = {
    {.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = 2, .flags = SP_PORT_NOGRAD, .doc = "N x C"},
    {.name = "labels", .dtypes = LABEL_DTYPES, .ndim = 1, .flags = SP_PORT_NOGRAD, .doc = "N class numbers"},
    {.name = NULL}};
const sp_port acc_outputs[] = {{.name = "top1",
                                .dtypes = SP_DT(SP_I64),
                                .ndim = 0,
                                .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
                                .doc = "how many labels are the class of the largest logit; of equals the first"},
                               {.name = "topk",
                                .dtypes = SP_DT(SP_I64),
                                .ndim = 0,
                                .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
                                .doc = "how many labels are among the classes of the k largest logits"},
                               {.name = "counted",
                                .dtypes = SP_DT(SP_I64),
                                .ndim = 0,
                                .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
                                .doc = "how many labels there are without those that do not count"},
                               LABEL_PORT_STATUS,
                               {.name = NULL}};
const sp_param acc_param_table[] = {{.name = "k",
                                     .type = SP_PARAM_INT,
                                     .offset = offsetof(acc_params, k),
                                     .idef = 5,
                                     .imin = 1,
                                     .imax = 65536,
                                     .doc = "how many of the largest logits topk looks at; may be more than there are"},
                                    LABEL_PARAM_IGNORE(acc_params, ignore_index),
                                    {.name = NULL}};
