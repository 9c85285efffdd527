/* SPDX-License-Identifier: MIT
 * lion.h - the sign of a mean of gradients as the step: parameters and checks, for every device. */
#ifndef LION_H
#define LION_H

#include "../../kits/optim/optim_kernels.h"
#include "../../kits/pair.h"

#define LION_DOC "Lion: steps of one size along the sign of a mean of gradients"

typedef struct lion_params {
  double lr;
  sp_floats betas;
  double weight_decay;
  optim_params common;
} lion_params;

typedef struct lion {
  const lion_params *p;
  optim o;
} lion;

#ifdef __cplusplus
extern "C" {
#endif

extern const sp_param lion_param_table[];

int lion_create(sp_ctx *ctx, const void *params, void **self);
void lion_destroy(void *self);
int lion_plan(sp_ctx *ctx, lion *l, sp_plan *plan, int64_t chunk); /* all but the scratch */

/* Constants of an update; c: 1 - b. */
typedef struct lion_rule {
  float b1, b2, c1, c2;
  int clips;
} lion_rule;

lion_rule lion_rule_of(const lion *l);

int lionk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status);

#ifdef __cplusplus
}
#endif

/* What the stage is on every device. */
#define LION_PAIR                                                                                                      \
  SP_STAGE_PAIR(lion, SP_STAGE_OPTIMIZER, LION_DOC, .doc = LION_DOC, .inputs = optim_inputs, .outputs = optim_outputs, \
                .params = lion_param_table, .params_size = sizeof(lion_params), .status_doc = OPTIM_STATUS_DOC,        \
                .create = lion_create, .destroy = lion_destroy)

#endif
