/* SPDX-License-Identifier: MIT
 * dice.c - the stage `dice`: parameters and checks. */
#include "dice.h"

int dice_plan(sp_ctx *ctx, sp_plan *plan) {
  int rc = labels_check(ctx, &plan->in[LOSS_IN_LOGITS].spec[0], &plan->in[LOSS_IN_LABELS].spec[0]);
  if (rc) return rc;
  loss_outputs_plan(plan);
  return SP_OK;
}

const sp_param dice_param_table[] = {LABEL_PARAM_IGNORE(dice_params, l.ignore_index),
                                     {.name = "smooth",
                                      .type = SP_PARAM_FLOAT,
                                      .offset = offsetof(dice_params, smooth),
                                      .def = 0,
                                      .min = 0,
                                      .max = 1e30,
                                      .doc = "added above and below the line of each class's score"},
                                     {.name = "eps",
                                      .type = SP_PARAM_FLOAT,
                                      .offset = offsetof(dice_params, eps),
                                      .def = 1e-7,
                                      .min = 0,
                                      .max = 1e30,
                                      .doc = "least of what is below the line"},
                                     LOSS_PARAM_WEIGHT(dice_params),
                                     LOSS_PARAM_NONFINITE(dice_params),
                                     {.name = NULL}};
