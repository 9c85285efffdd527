/* SPDX-License-Identifier: MIT
 * lamb.h - Adam's step, as long as a share of the tensor that it changes: parameters and checks, for every device. */
#ifndef LAMB_H
#define LAMB_H

#include "../../kits/optim/optim_kernels.h"
#include "../../kits/pair.h"

#define LAMB_DOC "LAMB: Adam's steps, as long as a share of the tensor that they change"

enum { LAMB_MEAN, LAMB_SQUARE, LAMB_MOMENTS };

typedef struct lamb_params {
  double lr;
  sp_floats betas;
  double eps, weight_decay;
  int32_t correct_bias, trust_clip, always_adapt;
  optim_params common;
} lamb_params;

typedef struct lamb {
  const lamb_params *p;
  optim o;
} lamb;

#ifdef __cplusplus
extern "C" {
#endif

extern const sp_param lamb_param_table[];

int lamb_create(sp_ctx *ctx, const void *params, void **self);
void lamb_destroy(void *self);
int lamb_plan(sp_ctx *ctx, lamb *l, sp_plan *plan, int64_t chunk); /* all but the scratch */

/* Constants of an update; c: 1 - b. */
typedef struct lamb_rule {
  float b1, b2, c1, c2, eps;
  int clips, trust_clip, always_adapt;
  double *squares; /* on CUDA: [2 * chunks] sums of the squares of weights, and of steps */
  float *trust;    /* [OPK_LIST] */
} lamb_rule;

lamb_rule lamb_rule_of(const lamb *l);

int lambk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status);

#ifdef __cplusplus
}
#endif

/* What the stage is on every device. */
#define LAMB_PAIR                                                                                                      \
  SP_STAGE_PAIR(lamb, SP_STAGE_OPTIMIZER, LAMB_DOC, .doc = LAMB_DOC, .inputs = optim_inputs, .outputs = optim_outputs, \
                .params = lamb_param_table, .params_size = sizeof(lamb_params), .status_doc = OPTIM_STATUS_DOC,        \
                .create = lamb_create, .destroy = lamb_destroy)

#endif
