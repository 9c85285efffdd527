/* SPDX-License-Identifier: MIT
 * dice.h - the stage `dice`: parameters, checks, and what its sums mean, for every device. */
#ifndef DICE_H
#define DICE_H

#include "../../kits/loss/loss.h"
#include "../../kits/pair.h"

#define DICE_DOC "Dice loss of the softmax of logits against class labels"

typedef struct dice_params {
  loss_params l;
  double smooth, eps;
} dice_params;

/* Of a class, over all positions that count. */
typedef struct dice_sums {
  double both;  /* probabilities where the label says so */
  double said;  /* all of the class's probabilities */
  double truth; /* labels */
} dice_sums;

/* The derivative by the class's probability at a position: all, and own where the label says so. */
typedef struct dice_slope {
  double own, all;
} dice_slope;

extern const sp_param dice_param_table[];

int dice_plan(sp_ctx *ctx, sp_plan *plan); /* all but the scratch */

/* What the stage is on every device. */
#define DICE_PAIR                                                                                                  \
  SP_STAGE_PAIR(dice, SP_STAGE_LOSS, "Dice loss", .doc = DICE_DOC, .inputs = loss_inputs, .outputs = loss_outputs, \
                .params = dice_param_table, .params_size = sizeof(dice_params), .status_doc = LOSS_STATUS_DOC,     \
                .create = stateless_create, .destroy = stateless_destroy)

#endif
