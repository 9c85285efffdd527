/* SPDX-License-Identifier: MIT
 * sgd.h - stochastic gradient descent: parameters and checks, for every device. */
#ifndef SGD_H
#define SGD_H

#include "../../kits/optim/optim.h"

#define SGD_DOC "Stochastic gradient descent"

typedef struct sgd_params {
  double lr, momentum, dampening, weight_decay;
  int32_t nesterov;
  optim_params common;
} sgd_params;

typedef struct sgd {
  const sgd_params *p;
  optim o;
} sgd;

extern const sp_param sgd_param_table[];

int sgd_create(sp_ctx *ctx, const void *params, void **self);
void sgd_destroy(void *self);
int sgd_plan(sp_ctx *ctx, sgd *s, sp_plan *plan, int64_t chunk); /* all but the scratch */

#endif
