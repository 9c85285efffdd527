/* SPDX-License-Identifier: MIT
 * mse.h - the stage `mse`: ports, parameters and checks, for every device. */
#ifndef MSE_H
#define MSE_H

#include "../../kits/pointwise/pointwise.h"

#define MSE_DOC "Mean of the squared differences of two tensors"

typedef struct mse_params {
  loss_params l; /* ignore_index: not used */
} mse_params;

extern const sp_port mse_inputs[];
extern const sp_param mse_param_table[];

int mse_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */
void mse_job(point_job *j, const void *self, const sp_io *io);

#endif
