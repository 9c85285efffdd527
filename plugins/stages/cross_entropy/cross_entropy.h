/* SPDX-License-Identifier: MIT
 * cross_entropy.h - the loss stage: ports, parameters and checks, for every device. */
#ifndef CROSS_ENTROPY_H
#define CROSS_ENTROPY_H

#include "../../kits/loss/loss.h"
#include "../../kits/pair.h"

#define CE_DOC "Mean cross-entropy of logits against class labels, or against probabilities of the classes"

typedef struct ce_params {
  loss_params l;
  sp_floats class_weights;
  double label_smoothing;
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

extern const sp_port ce_inputs[];
extern const sp_param ce_param_table[];

int ce_create(sp_ctx *ctx, const void *params, void **self);
void ce_destroy(void *self);
int ce_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */

/* The job of a call. Where labels are probabilities they are `shares`, and *rows says that those of a position lie side
 * by side. */
void ce_job_of(loss_job *j, const ce *c, const sp_io *io, int *rows);

/* What a class counts at a position whose label gives it so much: its part of what smoothing leaves, and of what it
 * spreads. */
LABEL_FN double ce_share(double own, double each, double weight, float share) { return weight * (own * share + each); }

/* What the stage is on every device. */
#define CROSS_ENTROPY_PAIR                                                                              \
  SP_STAGE_PAIR(cross_entropy, SP_STAGE_LOSS, "Cross-entropy loss", .doc = CE_DOC, .inputs = ce_inputs, \
                .outputs = loss_outputs, .params = ce_param_table, .params_size = sizeof(ce_params),    \
                .status_doc = LOSS_STATUS_DOC, .create = ce_create, .destroy = ce_destroy)

#endif
