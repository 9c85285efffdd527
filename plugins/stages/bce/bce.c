/* SPDX-License-Identifier: MIT
 * bce.c - the stage `bce`: ports, parameters and checks. */
#include "bce.h"

static int target_of(const sp_spec *y) { return y->dtype == SP_F32 ? TARGET_FLOAT : TARGET_LABEL; }

int bce_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)self;
  return point_plan(ctx, plan, target_of(&plan->in[LOSS_IN_LABELS].spec[0]));
}

void bce_job(point_job *j, const void *self, const sp_io *io) {
  const bce_params *p = self;
  point_job_of(j, io, &p->l, POINT_BCE, target_of(&io->in[LOSS_IN_LABELS].t[0].spec));
  j->one = (float)p->pos_weight;
}

const sp_port bce_inputs[] = {
    {.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x ..., row-major or channels-last"},
    {.name = "targets",
     .dtypes = LABEL_DTYPES | SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_NOGRAD,
     .doc = "N x ... labels of 0 and 1 where C is 1, or float32 of 0..1 in the shape of the logits"},
    {.name = NULL}};
const sp_param bce_param_table[] = {LABEL_PARAM_IGNORE(bce_params, l.ignore_index),
                                    {.name = "pos_weight",
                                     .type = SP_PARAM_FLOAT,
                                     .offset = offsetof(bce_params, pos_weight),
                                     .def = 1,
                                     .min = 0,
                                     .max = 1e30,
                                     .doc = "what a target of 1 counts beside one of 0"},
                                    LOSS_PARAM_WEIGHT(bce_params),
                                    LOSS_PARAM_NONFINITE(bce_params),
                                    {.name = NULL}};
