/* SPDX-License-Identifier: MIT
 * accuracy.h - how often the label is the class of the largest logit, or among the k largest: ports, parameters and
 * checks, for every device.
 *
 * The label's rank is how many classes are before it: those with a larger logit, those of an equal one and a lower
 * number, and those whose logit is NaN. It is among the k largest where its rank is below k. A label whose own logit is
 * NaN is nowhere. */
#ifndef ACCURACY_H
#define ACCURACY_H

#include "../../kits/labels/labels.h"
#include "../../kits/pair.h"

#define ACC_DOC "Counts of labels that are the class of the largest logit, or among the k largest"
#define ACC_STATUS_DOC "sample %sample: label %value is outside 0..%limit"

enum { ACC_IN_LOGITS, ACC_IN_LABELS };
enum { ACC_OUT_TOP1, ACC_OUT_TOPK, ACC_OUT_COUNTED, ACC_OUT_STATUS };

typedef struct acc_params {
  int64_t k, ignore_index;
} acc_params;

extern const sp_port acc_inputs[], acc_outputs[];
extern const sp_param acc_param_table[];

int acc_plan(sp_ctx *ctx, sp_plan *plan); /* all but the scratch */

/* What the stage is on every device. */
#define ACCURACY_PAIR                                                                                           \
  SP_STAGE_PAIR(accuracy, SP_STAGE_REENTRANT, "Top-1 and top-k accuracy", .doc = ACC_DOC, .inputs = acc_inputs, \
                .outputs = acc_outputs, .params = acc_param_table, .params_size = sizeof(acc_params),           \
                .status_doc = ACC_STATUS_DOC, .create = stateless_create, .destroy = stateless_destroy)

#endif
