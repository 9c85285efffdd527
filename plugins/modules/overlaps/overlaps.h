/* SPDX-License-Identifier: MIT
 * overlaps.h - the losses `dice`, `jaccard` and `tversky`: parameters, checks, and what their sums mean, for every
 * device. */
#ifndef OVERLAPS_H
#define OVERLAPS_H

#include "../../kits/loss/loss.h"
#include "../../kits/stateless.h"

/* DO(stage, words). A stage has a table of parameters and a form of its score. */
#define OVERLAPS_STAGES(DO)                                                                           \
  DO(dice, "Dice loss of the softmax of logits against class labels")                                 \
  DO(jaccard, "Jaccard loss (soft IoU) of the softmax of logits against class labels")                \
  DO(tversky, "Tversky loss of the softmax of logits against class labels: Dice's with a weight for " \
              "false positives and one for false negatives")

typedef struct overlap_params {
  loss_params l;
  double smooth, eps;
  double alpha, beta, gamma; /* of `tversky` */
} overlap_params;

/* Of a class, over all positions that count. */
typedef struct overlap_sums {
  double both;  /* probabilities where the label says so */
  double said;  /* all of the class's probabilities */
  double truth; /* labels */
} overlap_sums;

/* A class's score is
 *   (top * both + smooth) / (part_both * both + part_said * said + part_truth * truth + smooth);
 * the loss is the mean of 1 - score, to the power of gamma. */
typedef struct overlap_form {
  double top, part_both, part_said, part_truth;
  double smooth, eps; /* eps: least of what is below the line */
  double gamma;
} overlap_form;

/* The derivative by the class's probability at a position: all, and own where the label says so. */
typedef struct overlap_slope {
  double own, all;
} overlap_slope;

#define OVERLAPS_TABLES(id, words)          \
  extern const sp_param id##_param_table[]; \
  overlap_form id##_form(const overlap_params *p);
OVERLAPS_STAGES(OVERLAPS_TABLES)

int overlap_plan(sp_ctx *ctx, sp_plan *plan); /* all but the scratch */

/* The stage type of one device; `run` gets the form beside what forward gets. */
#define OVERLAPS_TYPE(id, words, where, also, run)                               \
  static int id##_forward(sp_ctx *ctx, void *self, const sp_io *io) {            \
    overlap_form form = id##_form(self);                                         \
    return run(ctx, self, io, &form);                                            \
  }                                                                              \
  static const sp_stage_type id##_type = {.size = sizeof(sp_stage_type),         \
                                          .flags = SP_STAGE_LOSS | (also),       \
                                          .name = #id,                           \
                                          .device = where,                       \
                                          .doc = words,                          \
                                          .inputs = loss_inputs,                 \
                                          .outputs = loss_outputs,               \
                                          .params = id##_param_table,            \
                                          .params_size = sizeof(overlap_params), \
                                          .status_doc = LOSS_STATUS_DOC,         \
                                          .create = stateless_create,            \
                                          .destroy = stateless_destroy,          \
                                          .plan = plan,                          \
                                          .forward = id##_forward};
#define OVERLAPS_POINTER(id, words) &id##_type,

#endif
