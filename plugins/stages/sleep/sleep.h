/* SPDX-License-Identifier: MIT
 * sleep.h - a known cost: ports, parameters and checks, for every device. */
#ifndef SLEEP_H
#define SLEEP_H

#include "../../kits/stateless.h"
#include "../../kits/pair.h"

#define SLEEP_DOC "Passes tensors through after a known time"

typedef struct sleep_params {
  double ms, backward_ms;
  int32_t spin;
  int64_t fail_at_step;
} sleep_params;

extern const sp_port sleep_inputs[], sleep_outputs[];
extern const sp_param sleep_param_table[];

int sleep_plan(sp_ctx *ctx, void *self, sp_plan *plan);

/* What the stage is on every device. */
#define SLEEP_PAIR                                                                                              \
  SP_STAGE_PAIR(sleep, SP_STAGE_REENTRANT, "A known cost, for tests", .doc = SLEEP_DOC, .inputs = sleep_inputs, \
                .outputs = sleep_outputs, .params = sleep_param_table, .params_size = sizeof(sleep_params),     \
                .create = stateless_create, .destroy = stateless_destroy, .plan = sleep_plan)

#endif
