/* SPDX-License-Identifier: MIT
 * sgd.c - stochastic gradient descent with momentum, Nesterov momentum, weight decay and clipping, as torch.optim.SGD:
 * what every device shares. */
#include "sgd.h"

#include <stdbool.h>
#include <stdlib.h>

int sgd_create(sp_ctx *ctx, const void *params, void **self) {
  const sgd_params *p = params;
  if (p->nesterov && (p->momentum == 0 || p->dampening != 0))
    return ctx->host->fail(ctx, SP_E_INVALID, "nesterov needs a momentum above 0 and no dampening");
  sgd *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  s->p = p;
  *self = s;
  return SP_OK;
}

void sgd_destroy(void *self) {
  sgd *s = self;
  optim_free(&s->o);
  free(s);
}

int sgd_plan(sp_ctx *ctx, sgd *s, sp_plan *plan, int64_t chunk) {
  static const char *const kinds[] = {"momentum"};
  const sgd_params *p = s->p;
  int rc = optim_plan(ctx, &s->o, plan, &p->common, kinds, p->momentum != 0, chunk);
  if (rc) return rc;
  plan->inplace = p->momentum == 0 && p->weight_decay == 0 && !optim_norm(&p->common) && !optim_averages(&s->o) &&
                  optim_one_lr(&s->o) && p->common.nonfinite == OPTIM_STOP; /* in place there is no way back */
  plan->restores = optim_restores(&s->o);
  return SP_OK;
}

const sp_param sgd_param_table[] = {
    OPTIM_LR_ROW(sgd_params, 1e-3),
    {.name = "momentum",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sgd_params, momentum),
     .min = 0,
     .max = 1,
     .doc = "share of the former update that is kept"},
    {.name = "dampening",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sgd_params, dampening),
     .min = 0,
     .max = 1,
     .doc = "share of the gradient that momentum leaves out"},
    {.name = "nesterov", .type = SP_PARAM_BOOL, .offset = offsetof(sgd_params, nesterov), .doc = "Nesterov momentum"},
    {.name = "weight_decay",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sgd_params, weight_decay),
     .min = 0,
     .max = 1e6,
     .doc = "times the weight is added to its gradient"},
    OPTIM_PARAM_ROWS(sgd_params),
    {.name = NULL}};
