/* SPDX-License-Identifier: MIT
 * confusion.c - how often each class was taken for each other: ports, parameters and checks. */
#include "confusion.h"

#define MAX_CLASSES 4096

int conf_plan(sp_ctx *ctx, sp_plan *plan, logit_shape *shape) {
  const sp_spec *x = &plan->in[CONF_IN_LOGITS].spec[0];
  int rc = labels_check(ctx, x, &plan->in[CONF_IN_LABELS].spec[0]);
  if (rc) return rc;
  logit_shape_of(shape, x);
  if (shape->classes > MAX_CLASSES)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%lld classes; a table of pairs is kept for up to %d",
                           (long long)shape->classes, MAX_CLASSES);
  plan->out[CONF_OUT_COUNTS].n = plan->out[CONF_OUT_STATUS].n = 1;
  plan->out[CONF_OUT_COUNTS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 2, .shape = {shape->classes, shape->classes}};
  plan->out[CONF_OUT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  return SP_OK;
}

const sp_port conf_inputs[] = {
    {.name = "logits",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_NOGRAD,
     .doc = "N x C x ..., row-major or channels-last"},
    {.name = "labels", .dtypes = LABEL_DTYPES, .ndim = -1, .flags = SP_PORT_NOGRAD, .doc = "N x ..., class numbers"},
    {.name = NULL}};
const sp_port conf_outputs[] = {{.name = "counts",
                                 .dtypes = SP_DT(SP_I64),
                                 .ndim = 2,
                                 .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
                                 .doc = "C x C: rows are the truth, columns the prediction"},
                                LABEL_PORT_STATUS,
                                {.name = NULL}};
const sp_param conf_param_table[] = {LABEL_PARAM_IGNORE(conf_params, ignore_index), {.name = NULL}};
