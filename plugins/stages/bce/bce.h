/* SPDX-License-Identifier: MIT
 * bce.h - the stage `bce`: ports, parameters and checks, for every device. */
#ifndef BCE_H
#define BCE_H

#include "../../kits/pointwise/pointwise.h"

#define BCE_DOC "Binary cross-entropy of logits against labels of 0 and 1, or numbers between"

typedef struct bce_params {
  loss_params l;
  double pos_weight;
} bce_params;

extern const sp_port bce_inputs[];
extern const sp_param bce_param_table[];

int bce_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */
void bce_job(point_job *j, const void *self, const sp_io *io);

#endif
