/* SPDX-License-Identifier: MIT
 * differences.c - the losses `mse`, `l1` and `huber`: ports, parameters and checks. */
#include "differences.h"

int difference_plan(sp_ctx *ctx, sp_plan *plan) { return point_plan(ctx, plan, TARGET_FLOAT); }

void difference_job(point_job *j, const difference_params *p, const sp_io *io, int cost) {
  point_job_of(j, io, &p->l, POINT_SQUARE, TARGET_FLOAT);
  j->cost = cost;
  j->delta = (float)p->delta;
  if (p->ignore_nan) j->l.known = j->y;
}

const sp_port difference_inputs[] = {
    {.name = "input", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x ..., row-major or channels-last"},
    {.name = "target",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .doc = "the same shape, or N x ... of inputs N x 1 x ...; it has a gradient as well"},
    {.name = NULL}};

#define IGNORE_NAN                                                                                         \
  {                                                                                                        \
    .name = "ignore_nan", .type = SP_PARAM_BOOL, .offset = offsetof(difference_params, ignore_nan),        \
    .doc = "a target of NaN is one that nobody knows, and does not count; otherwise it makes the loss NaN" \
  }
const sp_param mse_param_table[] = {
    LOSS_PARAM_WEIGHT(difference_params), LOSS_PARAM_NONFINITE(difference_params), IGNORE_NAN, {.name = NULL}};
const sp_param l1_param_table[] = {
    LOSS_PARAM_WEIGHT(difference_params), LOSS_PARAM_NONFINITE(difference_params), IGNORE_NAN, {.name = NULL}};
const sp_param huber_param_table[] = {LOSS_PARAM_WEIGHT(difference_params),
                                      LOSS_PARAM_NONFINITE(difference_params),
                                      {.name = "delta",
                                       .type = SP_PARAM_FLOAT,
                                       .offset = offsetof(difference_params, delta),
                                       .def = 1,
                                       .min = 1e-30,
                                       .max = 1e30,
                                       .doc = "where the cost becomes straight: half of the square up to there"},
                                      IGNORE_NAN,
                                      {.name = NULL}};
