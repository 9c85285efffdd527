/* SPDX-License-Identifier: MIT
 * lovasz.h - the stage `lovasz`: parameters, checks, and what a place in the order is worth, for every device. */
#ifndef LOVASZ_H
#define LOVASZ_H

#include "../../kits/loss/loss.h"
#include "../../kits/pair.h"

#define LOVASZ_DOC "Lovasz-softmax loss: a convex surrogate of 1 - IoU of each class, by sorted errors"

#define LOVASZ_MOST ((int64_t)1 << 30) /* positions of a batch */

enum { LOVASZ_PRESENT, LOVASZ_ALL }; /* of which classes the loss is the mean */

typedef struct lovasz_params {
  loss_params l;
  int32_t over;
} lovasz_params;

extern const sp_param lovasz_param_table[];

int lovasz_plan(sp_ctx *ctx, sp_plan *plan); /* all but the scratch */
void lovasz_job(loss_job *j, const lovasz_params *p, const sp_io *io);

/* One logit: labels are 0 and 1, errors those of a hinge. */
static inline int lovasz_is_hinge(const logit_shape *s) { return s->classes == 1; }

/* What the stage is on every device. */
#define LOVASZ_PAIR                                                                                          \
  SP_STAGE_PAIR(lovasz, SP_STAGE_LOSS, "Lovasz-softmax loss", .doc = LOVASZ_DOC, .inputs = loss_inputs,      \
                .outputs = loss_outputs, .params = lovasz_param_table, .params_size = sizeof(lovasz_params), \
                .status_doc = LOSS_STATUS_DOC, .create = stateless_create, .destroy = stateless_destroy)

#endif
