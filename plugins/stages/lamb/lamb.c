/* SPDX-License-Identifier: MIT
 * lamb.c - LAMB (You et al. 2019, "Large Batch Optimization for Deep Learning"), as timm's Lamb: what every device
 * shares. */
#include "lamb.h"

#include <stdlib.h>

int lamb_create(sp_ctx *ctx, const void *params, void **self) {
  const lamb_params *p = params;
  int rc = optim_check_betas(ctx, &p->betas);
  if (rc) return rc;
  lamb *l = calloc(1, sizeof *l);
  if (!l) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  l->p = p;
  *self = l;
  return SP_OK;
}

void lamb_destroy(void *self) {
  lamb *l = self;
  optim_free(&l->o);
  free(l);
}

int lamb_plan(sp_ctx *ctx, lamb *l, sp_plan *plan, int64_t chunk) {
  static const char *const kinds[LAMB_MOMENTS] = {"exp_avg", "exp_avg_sq"};
  int rc = optim_plan(ctx, &l->o, plan, &l->p->common, kinds, LAMB_MOMENTS, chunk);
  if (rc) return rc;
  plan->restores = optim_restores(&l->o);
  plan->slice = 0; /* norms are of whole tensors */
  return SP_OK;
}

lamb_rule lamb_rule_of(const lamb *l) {
  double b1 = l->p->betas.v[0], b2 = l->p->betas.v[1];
  return (lamb_rule){.b1 = (float)b1,
                     .b2 = (float)b2,
                     .c1 = (float)(1 - b1),
                     .c2 = (float)(1 - b2),
                     .eps = (float)l->p->eps,
                     .clips = l->p->common.clip_norm > 0,
                     .trust_clip = l->p->trust_clip,
                     .always_adapt = l->p->always_adapt};
}

const sp_param lamb_param_table[] = {
    OPTIM_LR_ROW(lamb_params, 1e-3),
    OPTIM_BETAS_ROW(lamb_params, "0.9,0.999", "decay of the running means of gradient and squared gradient"),
    OPTIM_EPS_ROW(lamb_params, 1e-6),
    OPTIM_DECAY_ROW(lamb_params, 1e-2),
    {.name = "bias_correction",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(lamb_params, correct_bias),
     .idef = 1,
     .doc = "means count for more while they are young"},
    {.name = "trust_clip",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(lamb_params, trust_clip),
     .doc = "a step gets shorter by its tensor's norm, never longer"},
    {.name = "always_adapt",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(lamb_params, always_adapt),
     .doc = "tensors without decay too have steps as long as a share of their norm"},
    OPTIM_PARAM_ROWS(lamb_params),
    {.name = NULL}};
