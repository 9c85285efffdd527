/* SPDX-License-Identifier: MIT
 * focal.h - the stage `focal`: ports, parameters and checks, for every device. */
#ifndef FOCAL_H
#define FOCAL_H

#include "../../kits/pointwise/pointwise.h"
#include "../../kits/pair.h"

#define FOCAL_DOC "Focal loss of each class's logit against class labels"

typedef struct focal_params {
  loss_params l;
  double gamma, alpha;
} focal_params;

extern const sp_param focal_param_table[];

int focal_create(sp_ctx *ctx, const void *params, void **self);
int focal_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */
void focal_job(point_job *j, const void *self, const sp_io *io);

/* What the stage is on every device. */
#define FOCAL_PAIR                                                                                                    \
  SP_STAGE_PAIR(focal, SP_STAGE_LOSS, "Focal loss", .doc = FOCAL_DOC, .inputs = loss_inputs, .outputs = loss_outputs, \
                .params = focal_param_table, .params_size = sizeof(focal_params), .status_doc = LOSS_STATUS_DOC,      \
                .create = focal_create, .destroy = stateless_destroy)

#endif
