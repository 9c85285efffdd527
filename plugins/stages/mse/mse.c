/* SPDX-License-Identifier: MIT
 * mse.c - the stage `mse`: ports, parameters and checks. */
#include "mse.h"

int mse_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const mse_params *p = self;
  if (p->cost != POINT_D_HUBER && p->delta != 1)
    return ctx->host->fail(ctx, SP_E_INVALID, "delta goes with cost = \"huber\"");
  return point_plan(ctx, plan, TARGET_FLOAT);
}

void mse_job(point_job *j, const void *self, const sp_io *io) {
  const mse_params *p = self;
  point_job_of(j, io, &p->l, POINT_SQUARE, TARGET_FLOAT);
  j->cost = p->cost;
  j->delta = (float)p->delta;
  if (p->ignore_nan) j->l.known = j->y;
}

const sp_port mse_inputs[] = {
    {.name = "input", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x ..., row-major or channels-last"},
    {.name = "target",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .doc = "the same shape, or N x ... of inputs N x 1 x ...; it has a gradient as well"},
    {.name = NULL}};
static const char *const costs[] = {"square", "absolute", "huber", NULL}; /* POINT_D_SQUARE ... */
const sp_param mse_param_table[] = {
    LOSS_PARAM_WEIGHT(mse_params),
    LOSS_PARAM_NONFINITE(mse_params),
    {.name = "cost",
     .type = SP_PARAM_CHOICE,
     .offset = offsetof(mse_params, cost),
     .choices = costs,
     .doc = "what a difference costs: its square; its size (L1); huber: half its square up to delta, from there on "
            "straight"},
    {.name = "delta",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(mse_params, delta),
     .def = 1,
     .min = 1e-30,
     .max = 1e30,
     .doc = "where huber becomes straight"},
    {.name = "ignore_nan",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(mse_params, ignore_nan),
     .doc = "a target of NaN is one that nobody knows, and does not count; otherwise it makes the loss NaN"},
    {.name = NULL}};
