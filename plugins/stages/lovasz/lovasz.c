/* SPDX-License-Identifier: MIT
 * lovasz.c - the stage `lovasz`: parameters and checks. */
#include "lovasz.h"

int lovasz_plan(sp_ctx *ctx, sp_plan *plan) {
  const sp_spec *x = &plan->in[LOSS_IN_LOGITS].spec[0];
  int rc = labels_check(ctx, x, &plan->in[LOSS_IN_LABELS].spec[0]);
  logit_shape s;
  if (rc) return rc;
  logit_shape_of(&s, x);
  if (s.px && s.n > LOVASZ_MOST / s.px)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED,
                           "a batch of %lld x %lld labels cannot be sorted, %lld are the most: take a smaller batch",
                           (long long)s.n, (long long)s.px, (long long)LOVASZ_MOST);
  loss_outputs_plan(plan);
  return SP_OK;
}

void lovasz_job(loss_job *j, const lovasz_params *p, const sp_io *io) {
  loss_job_of(j, io, &p->l);
  if (lovasz_is_hinge(&j->shape)) j->values = 2;
}

static const char *const over[] = {"present", "all", NULL}; /* LOVASZ_PRESENT ... */
const sp_param lovasz_param_table[] = {LABEL_PARAM_IGNORE(lovasz_params, l.ignore_index),
                                       {.name = "over",
                                        .type = SP_PARAM_CHOICE,
                                        .offset = offsetof(lovasz_params, over),
                                        .choices = over,
                                        .doc = "the mean is over the classes that labels of the batch have, or over "
                                               "all; of one logit it makes no difference"},
                                       LOSS_PARAM_WEIGHT(lovasz_params),
                                       LOSS_PARAM_NONFINITE(lovasz_params),
                                       {.name = NULL}};
