/* SPDX-License-Identifier: MIT
 * sgd.h - stochastic gradient descent: parameters and checks, for every device. */
#ifndef SGD_H
#define SGD_H

#include "../../kits/optim/optim_kernels.h"
#include "../../kits/pair.h"

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

#ifdef __cplusplus
extern "C" {
#endif

extern const sp_param sgd_param_table[];

int sgd_create(sp_ctx *ctx, const void *params, void **self);
void sgd_destroy(void *self);
int sgd_plan(sp_ctx *ctx, sgd *s, sp_plan *plan, int64_t chunk); /* all but the scratch */

/* Constants of an update. */
typedef struct sgd_rule {
  float mu;
  int momentum, nesterov, clips;
} sgd_rule;

int sgdk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status);

#ifdef __cplusplus
}
#endif

/* What the stage is on every device. */
#define SGD_PAIR                                                                                                 \
  SP_STAGE_PAIR(sgd, SP_STAGE_OPTIMIZER | SP_STAGE_INPLACE_SGD, SGD_DOC, .doc = SGD_DOC, .inputs = optim_inputs, \
                .outputs = optim_outputs, .params = sgd_param_table, .params_size = sizeof(sgd_params),          \
                .status_doc = OPTIM_STATUS_DOC, .create = sgd_create, .destroy = sgd_destroy)

#endif
