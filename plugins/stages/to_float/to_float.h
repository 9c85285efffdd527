/* SPDX-License-Identifier: MIT
 * to_float.h - bytes to float32: ports and parameters, for every device. */
#ifndef TO_FLOAT_H
#define TO_FLOAT_H

#include "../../kits/stateless.h"
#include "../../kits/pair.h"

#define TO_FLOAT_DOC "Turns bytes into float32"

typedef struct to_float_params {
  int32_t scale;
} to_float_params;

extern const sp_port to_float_inputs[], to_float_outputs[];
extern const sp_param to_float_param_table[];

int to_float_plan(sp_ctx *ctx, void *self, sp_plan *plan);

/* What each byte is multiplied by; self: the parameters. */
float to_float_factor(const void *self);

/* What the stage is on every device. */
#define TO_FLOAT_PAIR                                                                                             \
  SP_STAGE_PAIR(to_float, SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT, "Bytes to float32", .doc = TO_FLOAT_DOC,      \
                .inputs = to_float_inputs, .outputs = to_float_outputs, .params = to_float_param_table,           \
                .params_size = sizeof(to_float_params), .create = stateless_create, .destroy = stateless_destroy, \
                .plan = to_float_plan)

#endif
