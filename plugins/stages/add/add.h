/* SPDX-License-Identifier: MIT
 * add.h - the sum of tensors of one shape: ports and checks, for every device. */
#ifndef ADD_H
#define ADD_H

#include "../../kits/stateless.h"
#include "../../kits/pair.h"

#define ADD_DOC "Sum of tensors of one shape"

extern const sp_port add_inputs[], add_outputs[];

int add_plan(sp_ctx *ctx, void *self, sp_plan *plan);

/* What the stage is on every device. */
#define ADD_PAIR                                                                                 \
  SP_STAGE_PAIR(add, SP_STAGE_REENTRANT, "Sum of tensors", .doc = ADD_DOC, .inputs = add_inputs, \
                .outputs = add_outputs, .create = stateless_create, .destroy = stateless_destroy, .plan = add_plan)

#endif
