/* SPDX-License-Identifier: MIT
 * adamw.c - Adam with decoupled weight decay, as torch.optim.AdamW: what every device shares. */
#include "adamw.h"

#include <stdlib.h>

int adamw_create(sp_ctx *ctx, const void *params, void **self) {
  const adamw_params *p = params;
  int rc = optim_check_betas(ctx, &p->betas);
  if (rc) return rc;
  adamw *a = calloc(1, sizeof *a);
  if (!a) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  a->p = p;
  *self = a;
  return SP_OK;
}

void adamw_destroy(void *self) {
  adamw *a = self;
  optim_free(&a->o);
  free(a);
}

int adamw_plan(sp_ctx *ctx, adamw *a, sp_plan *plan, int64_t chunk) {
  static const char *const kinds[ADAMW_AMSGRAD] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  int rc = optim_plan(ctx, &a->o, plan, &a->p->common, kinds, a->p->amsgrad ? ADAMW_AMSGRAD : ADAMW_PLAIN, chunk);
  if (rc) return rc;
  plan->restores = optim_restores(&a->o);
  return SP_OK;
}

const sp_param adamw_param_table[] = {
    OPTIM_LR_ROW(adamw_params, 1e-3),
    OPTIM_BETAS_ROW(adamw_params, "0.9,0.999", "decay of the running means of gradient and squared gradient"),
    OPTIM_EPS_ROW(adamw_params, 1e-8),
    OPTIM_DECAY_ROW(adamw_params, 1e-2),
    {.name = "amsgrad",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(adamw_params, amsgrad),
     .doc = "divide by the largest mean squared gradient that there was"},
    OPTIM_PARAM_ROWS(adamw_params),
    {.name = NULL}};
