/* SPDX-License-Identifier: MIT
 * sleep.h - a known cost: ports, parameters and checks, for every device. */
#ifndef SLEEP_H
#define SLEEP_H

#include "../../kits/stateless.h"

#define SLEEP_DOC "Passes tensors through after a known time"

typedef struct sleep_params {
  double ms, backward_ms;
  int32_t spin;
  int64_t fail_at_step;
} sleep_params;

extern const sp_port sleep_inputs[], sleep_outputs[];
extern const sp_param sleep_param_table[];

int sleep_plan(sp_ctx *ctx, void *self, sp_plan *plan);

#endif
