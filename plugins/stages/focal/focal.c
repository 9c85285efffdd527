/* SPDX-License-Identifier: MIT
 * focal.c - the stage `focal`: parameters and checks. */
#include "focal.h"

#include "../../kits/stateless.h"

int focal_create(sp_ctx *ctx, const void *params, void **self) {
  const focal_params *p = params;
  if (p->alpha < 0 && p->alpha != -1)
    return ctx->host->fail(ctx, SP_E_RANGE, "alpha is %g, but must be 0 to 1, or -1 for none", p->alpha);
  return stateless_create(ctx, params, self);
}

int focal_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)self;
  return point_plan(ctx, plan, TARGET_CLASS);
}

void focal_job(point_job *j, const void *self, const sp_io *io) {
  const focal_params *p = self;
  point_job_of(j, io, &p->l, p->gamma == 2 ? POINT_FOCAL_2 : POINT_FOCAL, TARGET_CLASS);
  j->gamma = (float)p->gamma;
  if (p->alpha >= 0) j->one = (float)p->alpha, j->zero = (float)(1 - p->alpha);
}

const sp_param focal_param_table[] = {LABEL_PARAM_IGNORE(focal_params, l.ignore_index),
                                      {.name = "gamma",
                                       .type = SP_PARAM_FLOAT,
                                       .offset = offsetof(focal_params, gamma),
                                       .def = 2,
                                       .min = 0,
                                       .max = 1000,
                                       .doc = "power of how wrong a logit is; 0: binary cross-entropy of each class"},
                                      {.name = "alpha",
                                       .type = SP_PARAM_FLOAT,
                                       .offset = offsetof(focal_params, alpha),
                                       .def = -1,
                                       .min = -1,
                                       .max = 1,
                                       .doc = "what the label's class counts, the others 1 - alpha; -1: all count 1"},
                                      LOSS_PARAM_WEIGHT(focal_params),
                                      LOSS_PARAM_NONFINITE(focal_params),
                                      {.name = NULL}};
