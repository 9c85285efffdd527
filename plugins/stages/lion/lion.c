/* SPDX-License-Identifier: MIT
 * lion.c - Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"): what every device shares. */
#include "lion.h"

#include <stdlib.h>

int lion_create(sp_ctx *ctx, const void *params, void **self) {
  const lion_params *p = params;
  int rc = optim_check_betas(ctx, &p->betas);
  if (rc) return rc;
  lion *l = calloc(1, sizeof *l);
  if (!l) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  l->p = p;
  *self = l;
  return SP_OK;
}

void lion_destroy(void *self) {
  lion *l = self;
  optim_free(&l->o);
  free(l);
}

int lion_plan(sp_ctx *ctx, lion *l, sp_plan *plan, int64_t chunk) {
  static const char *const kinds[] = {"exp_avg"};
  int rc = optim_plan(ctx, &l->o, plan, &l->p->common, kinds, 1, chunk);
  if (rc) return rc;
  plan->restores = optim_restores(&l->o);
  return SP_OK;
}

lion_rule lion_rule_of(const lion *l) {
  double b1 = l->p->betas.v[0], b2 = l->p->betas.v[1];
  return (lion_rule){.b1 = (float)b1,
                     .b2 = (float)b2,
                     .c1 = (float)(1 - b1),
                     .c2 = (float)(1 - b2),
                     .clips = l->p->common.clip_norm > 0};
}

const sp_param lion_param_table[] = {
    OPTIM_LR_ROW(lion_params, 1e-4),
    OPTIM_BETAS_ROW(lion_params, "0.9,0.99",
                    "share of the running mean of gradients in what the step has the sign of, and its decay"),
    OPTIM_DECAY_ROW(lion_params, 0),
    OPTIM_PARAM_ROWS(lion_params),
    {.name = NULL}};
