/* SPDX-License-Identifier: MIT
 * add.h - the sum of tensors of one shape: ports and checks, for every device. */
#ifndef ADD_H
#define ADD_H

#include "../../kits/stateless.h"

#define ADD_DOC "Sum of tensors of one shape"

extern const sp_port add_inputs[], add_outputs[];

int add_plan(sp_ctx *ctx, void *self, sp_plan *plan);

#endif
