/* SPDX-License-Identifier: MIT
 * cross_entropy.h - the loss stage: ports, parameters and checks, for every device. */
#ifndef CROSS_ENTROPY_H
#define CROSS_ENTROPY_H

#include "../../kits/labels/labels.h"

#define CE_DOC "Mean cross-entropy of logits against class labels"

/* The second line is for SP_E_RANGE, see CE_NOT_FINITE. */
#define CE_STATUS_DOC                                   \
  "sample %sample: label %value is outside 0..%limit\n" \
  "the loss is not finite: lower the learning rate, or set nonfinite = \"ignore\" here and \"skip\" in the optimizer"

enum { CE_BAD_LABEL = SP_E_DATA, CE_NOT_FINITE = SP_E_RANGE }; /* of the STATUS output */
enum { CE_STOP, CE_IGNORE };                                   /* ce_params.nonfinite */
enum { CE_IN_LOGITS, CE_IN_LABELS };
enum { CE_OUT_LOSS, CE_OUT_STATUS, CE_OUT_VALID };

typedef struct ce_params {
  int64_t ignore_index;
  sp_floats class_weights;
  double weight, label_smoothing;
  int32_t nonfinite;
} ce_params;

/* A position whose label has class weight w gets the loss
 *   own * w * -log p[label] + each * sum over the classes c of weight[c] * -log p[c],
 * so that the logarithm of its sum of exponentials counts own * w + all. */
typedef struct ce_smooth {
  float own, all; /* 1 and 0 without smoothing */
  double each;    /* 0 without */
} ce_smooth;

typedef struct ce {
  const ce_params *p;
  float *class_weights; /* NULL: all 1 */
  ce_smooth smooth;
} ce;

extern const sp_port ce_inputs[], ce_outputs[];
extern const sp_param ce_param_table[];

int ce_create(sp_ctx *ctx, const void *params, void **self);
void ce_destroy(void *self);
int ce_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */

#endif
