/* SPDX-License-Identifier: MIT
 * overlaps.c - the losses `dice`, `jaccard` and `tversky`: parameters, checks, and the form of each. */
#include "overlaps.h"

int overlap_plan(sp_ctx *ctx, sp_plan *plan) {
  int rc = labels_check(ctx, &plan->in[LOSS_IN_LOGITS].spec[0], &plan->in[LOSS_IN_LABELS].spec[0]);
  if (rc) return rc;
  loss_outputs_plan(plan);
  return SP_OK;
}

overlap_form dice_form(const overlap_params *p) {
  return (overlap_form){
      .top = 2, .part_both = 0, .part_said = 1, .part_truth = 1, .smooth = p->smooth, .eps = p->eps, .gamma = 1};
}

overlap_form jaccard_form(const overlap_params *p) {
  return (overlap_form){
      .top = 1, .part_both = -1, .part_said = 1, .part_truth = 1, .smooth = p->smooth, .eps = p->eps, .gamma = 1};
}

/* What is said and not true is said - both, what is true and not said truth - both. */
overlap_form tversky_form(const overlap_params *p) {
  return (overlap_form){.top = 1,
                        .part_both = 1 - p->alpha - p->beta,
                        .part_said = p->alpha,
                        .part_truth = p->beta,
                        .smooth = p->smooth,
                        .eps = p->eps,
                        .gamma = p->gamma};
}

#define NUMBER(id, value, least, words)                                                                      \
  {                                                                                                          \
    .name = #id, .type = SP_PARAM_FLOAT, .offset = offsetof(overlap_params, id), .def = value, .min = least, \
    .max = 1e30, .doc = words                                                                                \
  }
#define SMOOTH NUMBER(smooth, 0, 0, "added above and below the line of each class's score")
#define EPS NUMBER(eps, 1e-7, 0, "least of what is below the line")

const sp_param dice_param_table[] = {LABEL_PARAM_IGNORE(overlap_params, l.ignore_index),
                                     SMOOTH,
                                     EPS,
                                     LOSS_PARAM_WEIGHT(overlap_params),
                                     LOSS_PARAM_NONFINITE(overlap_params),
                                     {.name = NULL}};
const sp_param jaccard_param_table[] = {LABEL_PARAM_IGNORE(overlap_params, l.ignore_index),
                                        SMOOTH,
                                        EPS,
                                        LOSS_PARAM_WEIGHT(overlap_params),
                                        LOSS_PARAM_NONFINITE(overlap_params),
                                        {.name = NULL}};
const sp_param tversky_param_table[] = {
    LABEL_PARAM_IGNORE(overlap_params, l.ignore_index),
    NUMBER(alpha, 0.5, 0, "what a false positive counts; with beta both 0.5: Dice's loss, both 1: Jaccard's"),
    NUMBER(beta, 0.5, 0, "what a false negative counts; above alpha: small objects are missed less"),
    NUMBER(gamma, 1, 1e-3, "power of the mean over the classes; other than 1: the focal Tversky loss"),
    SMOOTH,
    EPS,
    LOSS_PARAM_WEIGHT(overlap_params),
    LOSS_PARAM_NONFINITE(overlap_params),
    {.name = NULL}};
