/* SPDX-License-Identifier: MIT
 * bce.h - the stage `bce`: ports, parameters and checks, for every device. */
#ifndef BCE_H
#define BCE_H

#include "../../kits/pointwise/pointwise.h"
#include "../../kits/pair.h"

#define BCE_DOC "Binary cross-entropy of logits against labels of 0 and 1, or numbers between"

typedef struct bce_params {
  loss_params l;
  double pos_weight;
} bce_params;

extern const sp_port bce_inputs[];
extern const sp_param bce_param_table[];

int bce_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */
void bce_job(point_job *j, const void *self, const sp_io *io);

/* What the stage is on every device. */
#define BCE_PAIR                                                                                       \
  SP_STAGE_PAIR(bce, SP_STAGE_LOSS, "Binary cross-entropy loss", .doc = BCE_DOC, .inputs = bce_inputs, \
                .outputs = loss_outputs, .params = bce_param_table, .params_size = sizeof(bce_params), \
                .status_doc = LOSS_STATUS_DOC, .create = stateless_create, .destroy = stateless_destroy)

#endif
