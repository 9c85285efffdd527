/* SPDX-License-Identifier: MIT
 * confusion.h - counts of (truth, prediction) pairs: ports, parameters and checks, for every device. */
#ifndef CONFUSION_H
#define CONFUSION_H

#include "../../kits/labels/labels.h"

#define CONF_DOC "Counts of true against predicted classes, for accuracy and IoU"
#define CONF_STATUS_DOC "sample %sample: label %value is outside 0..%limit"

enum { CONF_IN_LOGITS, CONF_IN_LABELS };
enum { CONF_OUT_COUNTS, CONF_OUT_STATUS };

typedef struct conf_params {
  int64_t ignore_index;
} conf_params;

extern const sp_port conf_inputs[], conf_outputs[];
extern const sp_param conf_param_table[];

int conf_plan(sp_ctx *ctx, sp_plan *plan, logit_shape *shape); /* all but the scratch */

#endif
