/* SPDX-License-Identifier: MIT
 * mse.h - the stage `mse`: ports, parameters and checks, for every device. */
#ifndef MSE_H
#define MSE_H

#include "../../kits/pointwise/pointwise.h"
#include "../../kits/pair.h"

#define MSE_DOC "Mean of the differences of two tensors: squared, absolute, or Huber's"

typedef struct mse_params {
  loss_params l; /* ignore_index: not used */
  double delta;
  int32_t cost, ignore_nan;
} mse_params;

extern const sp_port mse_inputs[];
extern const sp_param mse_param_table[];

int mse_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */
void mse_job(point_job *j, const void *self, const sp_io *io);

/* What the stage is on every device. */
#define MSE_PAIR                                                                                       \
  SP_STAGE_PAIR(mse, SP_STAGE_LOSS, "Mean squared error", .doc = MSE_DOC, .inputs = mse_inputs,        \
                .outputs = loss_outputs, .params = mse_param_table, .params_size = sizeof(mse_params), \
                .status_doc = LOSS_STATUS_DOC, .create = stateless_create, .destroy = stateless_destroy)

#endif
