/* SPDX-License-Identifier: MIT
 * mse.c - the stage `mse`: ports, parameters and checks. */
#include "mse.h"

int mse_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)self;
  return point_plan(ctx, plan, TARGET_FLOAT);
}

void mse_job(point_job *j, const void *self, const sp_io *io) {
  const mse_params *p = self;
  point_job_of(j, io, &p->l, POINT_SQUARE, TARGET_FLOAT);
}

const sp_port mse_inputs[] = {
    {.name = "input", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x ..., row-major or channels-last"},
    {.name = "target", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "the same shape; it has a gradient as well"},
    {.name = NULL}};
const sp_param mse_param_table[] = {LOSS_PARAM_WEIGHT(mse_params), LOSS_PARAM_NONFINITE(mse_params), {.name = NULL}};
