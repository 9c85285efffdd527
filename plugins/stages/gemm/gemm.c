/* SPDX-License-Identifier: MIT
 * gemm.c - a matrix product of a known cost, to load a device with. */
#include "gemm.h"

#include <stdlib.h>

int gemm_create(sp_ctx *ctx, const void *params, void **self) {
  gemm *g = calloc(1, sizeof *g);
  if (!g) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  g->p = params;
  *self = g;
  return SP_OK;
}

void gemm_destroy(void *self) { free(self); }

/* A constant matrix in the place of b, so that the product of one tensor has a cost, too. */
static void own_factor(gemm *g, sp_plan *plan, int64_t k) {
  int64_t n = g->p->n ? g->p->n : k;
  g->b = (sp_weight){.name = "b",
                     .spec = {.dtype = SP_F32, .ndim = 2, .shape = {k, n}},
                     .init = SP_INIT_UNIFORM,
                     .init_value = (double)k};
  plan->weights = &g->b;
  plan->n_weights = 1;
}

int gemm_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  plan->stepless = 1;
  gemm *g = self;
  const sp_spec *a = &plan->in[GEMM_IN_A].spec[0], *b;
  int wired = plan->in[GEMM_IN_B].n == 1;
  if (a->order != SP_ROW_MAJOR || (wired && plan->in[GEMM_IN_B].spec[0].order != SP_ROW_MAJOR))
    return ctx->host->fail(ctx, SP_E_SHAPE, "the factors must lie row by row");
  if (!wired) own_factor(g, plan, a->shape[1]);
  b = wired ? &plan->in[GEMM_IN_B].spec[0] : &g->b.spec;
  if (a->shape[1] != b->shape[0])
    return ctx->host->fail(ctx, SP_E_SHAPE, "a has %lld columns, but b has %lld rows", (long long)a->shape[1],
                           (long long)b->shape[0]);
  if (g->p->n && g->p->n != b->shape[1])
    return ctx->host->fail(ctx, SP_E_SHAPE, "n is %lld, but b has %lld columns", (long long)g->p->n,
                           (long long)b->shape[1]);
  for (int i = 0; i < 2; i++)
    if (a->shape[i] > INT32_MAX || b->shape[1] > INT32_MAX)
      return ctx->host->fail(ctx, SP_E_RANGE, "an extent is above %d", INT32_MAX);
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_F32, .ndim = 2, .shape = {a->shape[0], b->shape[1]}};
  return SP_OK;
}

gemm_call gemm_call_of(const sp_io *io) {
  const sp_tensor *a = &io->in[GEMM_IN_A].t[0], *b = io->in[GEMM_IN_B].n ? &io->in[GEMM_IN_B].t[0] : &io->weights[0];
  return (gemm_call){.a = a->data,
                     .b = b->data,
                     .c = io->out[0].t[0].data,
                     .m = a->spec.shape[0],
                     .n = b->spec.shape[1],
                     .k = a->spec.shape[1]};
}

const sp_port gemm_inputs[] = {{.name = "a", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "M x K"},
                               {.name = "b",
                                .dtypes = SP_DT(SP_F32),
                                .ndim = 2,
                                .flags = SP_PORT_OPTIONAL,
                                .doc = "K x N; without it a constant matrix of random numbers"},
                               {.name = NULL}};
const sp_port gemm_outputs[] = {{.name = "c", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "M x N"}, {.name = NULL}};
const sp_param gemm_param_table[] = {{.name = "n",
                                      .type = SP_PARAM_INT,
                                      .offset = offsetof(gemm_params, n),
                                      .imin = 0,
                                      .imax = 1 << 20,
                                      .doc = "columns of the constant b; 0: as many as a has"},
                                     {.name = "times",
                                      .type = SP_PARAM_INT,
                                      .offset = offsetof(gemm_params, times),
                                      .idef = 1,
                                      .imin = 1,
                                      .imax = 1 << 20,
                                      .doc = "how often the same product is computed"},
                                     {.name = NULL}};
