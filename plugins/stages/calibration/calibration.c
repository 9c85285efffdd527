/* SPDX-License-Identifier: MIT
 * calibration.c - reliability of probabilities: ports, parameters and checks. */
#include "calibration.h"

int cal_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const cal_params *p = self;
  int rc = score_check(ctx, &plan->in[0].spec[0], &plan->in[1].spec[0]);
  if (rc) return rc;
  plan->out[CAL_OUT_RELIABILITY].n = plan->out[CAL_OUT_STATUS].n = 1;
  plan->out[CAL_OUT_RELIABILITY].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 2, .shape = {p->bins, CAL_N}};
  plan->out[CAL_OUT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  return SP_OK;
}

const sp_port cal_inputs[] = {SCORE_PORT_LOGITS, SCORE_PORT_TARGETS, {.name = NULL}};
const sp_port cal_outputs[] = {
    {.name = "reliability",
     .dtypes = SP_DT(SP_I64),
     .ndim = 2,
     .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
     .doc = "bins x 3: predictions, right ones, the sum of their probabilities in units of 2^-24"},
    SCORE_PORT_STATUS,
    {.name = NULL}};
const sp_param cal_param_table[] = {{.name = "bins",
                                     .type = SP_PARAM_INT,
                                     .offset = offsetof(cal_params, bins),
                                     .idef = 15,
                                     .imin = 1,
                                     .imax = 1000,
                                     .doc = "how many, of equal width from 0 to 1"},
                                    LABEL_PARAM_IGNORE(cal_params, ignore_index),
                                    {.name = NULL}};
