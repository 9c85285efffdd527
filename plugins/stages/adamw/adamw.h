/* SPDX-License-Identifier: MIT
 * adamw.h - Adam with decoupled weight decay: parameters and checks, for every device. */
#ifndef ADAMW_H
#define ADAMW_H

#include "../../kits/optim/optim_kernels.h"
#include "../../kits/pair.h"

#define ADAMW_DOC "Adam with decoupled weight decay"

enum { ADAMW_PLAIN = 2, ADAMW_AMSGRAD = 3 }; /* moments */

typedef struct adamw_params {
  double lr;
  sp_floats betas;
  double eps, weight_decay;
  int32_t amsgrad;
  optim_params common;
} adamw_params;

typedef struct adamw {
  const adamw_params *p;
  optim o;
} adamw;

#ifdef __cplusplus
extern "C" {
#endif

extern const sp_param adamw_param_table[];

int adamw_create(sp_ctx *ctx, const void *params, void **self);
void adamw_destroy(void *self);
int adamw_plan(sp_ctx *ctx, adamw *a, sp_plan *plan, int64_t chunk); /* all but the scratch */

int adamwk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status);

#ifdef __cplusplus
}
#endif

/* What the stage is on every device. */
#define ADAMW_PAIR                                                                                          \
  SP_STAGE_PAIR(adamw, SP_STAGE_OPTIMIZER, ADAMW_DOC, .doc = ADAMW_DOC, .inputs = optim_inputs,             \
                .outputs = optim_outputs, .params = adamw_param_table, .params_size = sizeof(adamw_params), \
                .status_doc = OPTIM_STATUS_DOC, .create = adamw_create, .destroy = adamw_destroy)

#endif
