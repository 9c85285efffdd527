/* SPDX-License-Identifier: MIT
 * adamw.c - Adam with decoupled weight decay, as torch.optim.AdamW: what every device shares. */
#include "adamw.h"

#include <stdlib.h>

int adamw_create(sp_ctx *ctx, const void *params, void **self) {
  const adamw_params *p = params;
  for (uint32_t i = 0; i < p->betas.n; i++)
    if (p->betas.v[i] >= 1)
      return ctx->host->fail(ctx, SP_E_RANGE, "betas[%u] is %g, but must be below 1", i + 1, p->betas.v[i]);
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
  static const char *const kinds[ADAMW_MOMENTS] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  int rc = optim_plan(ctx, &a->o, plan, &a->p->common, kinds, a->p->amsgrad ? ADAMW_MOMENTS : ADAMW_LARGEST, chunk);
  if (rc) return rc;
  plan->restores = optim_restores(&a->o);
  return SP_OK;
}

const sp_param adamw_param_table[] = {{.name = "lr",
                                       .type = SP_PARAM_FLOAT,
                                       .flags = SP_PARAM_LIVE,
                                       .offset = offsetof(adamw_params, lr),
                                       .def = 1e-3,
                                       .min = 0,
                                       .max = 1e6,
                                       .doc = "learning rate"},
                                      {.name = "betas",
                                       .type = SP_PARAM_FLOATS,
                                       .offset = offsetof(adamw_params, betas),
                                       .def_str = "0.9,0.999",
                                       .min = 0,
                                       .max = 1,
                                       .min_n = 2,
                                       .max_n = 2,
                                       .doc = "decay of the running means of gradient and squared gradient"},
                                      {.name = "eps",
                                       .type = SP_PARAM_FLOAT,
                                       .offset = offsetof(adamw_params, eps),
                                       .def = 1e-8,
                                       .min = 0,
                                       .max = 1,
                                       .doc = "added to the root of the mean squared gradient"},
                                      {.name = "weight_decay",
                                       .type = SP_PARAM_FLOAT,
                                       .offset = offsetof(adamw_params, weight_decay),
                                       .def = 1e-2,
                                       .min = 0,
                                       .max = 1e6,
                                       .doc = "weights shrink by this times the learning rate"},
                                      {.name = "amsgrad",
                                       .type = SP_PARAM_BOOL,
                                       .offset = offsetof(adamw_params, amsgrad),
                                       .doc = "divide by the largest mean squared gradient that there was"},
                                      OPTIM_PARAM_ROWS(adamw_params),
                                      {.name = NULL}};
