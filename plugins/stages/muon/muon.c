/* SPDX-License-Identifier: MIT
 * muon.c - Muon (Jordan et al. 2024), with AdamW beside it as the author's MuonWithAuxAdam: what devices share. */
#include "muon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int muon_create(sp_ctx *ctx, const void *params, void **self) {
  const muon_params *p = params;
  if (p->momentum >= 1) return ctx->host->fail(ctx, SP_E_RANGE, "momentum is %g, but must be below 1", p->momentum);
  for (uint32_t i = 0; i < p->aux_betas.n; i++)
    if (p->aux_betas.v[i] >= 1)
      return ctx->host->fail(ctx, SP_E_RANGE, "aux_betas[%u] is %g, but must be below 1", i + 1, p->aux_betas.v[i]);
  muon *m = calloc(1, sizeof *m);
  if (!m) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  m->p = p;
  *self = m;
  return SP_OK;
}

void muon_destroy(void *self) {
  muon *m = self;
  optim_free(&m->o);
  free(m->matrix);
  free(m->apart);
  free(m);
}

static muon_matrix matrix_of(const sp_spec *s) {
  muon_matrix x = {s->ndim ? s->shape[0] : 1, 1};
  for (uint32_t d = 1; d < (uint32_t)s->ndim; d++) x.cols *= s->shape[d];
  return x;
}

/* Matrices, but for the first and the last of them where these are left to AdamW. */
static void choose(muon *m, const sp_speclist *in) {
  uint32_t first = in->n, last = 0;
  for (uint32_t i = 0; i < in->n; i++) {
    m->matrix[i] = matrix_of(&in->spec[i]);
    m->apart[i] = in->spec[i].ndim >= 2 && m->matrix[i].rows > 0 && m->matrix[i].cols > 0;
    if (!m->apart[i]) continue;
    if (first == in->n) first = i;
    last = i;
  }
  if (m->p->edges == MUON_EDGES_ADAMW && first < in->n) m->apart[first] = m->apart[last] = 0;
}

/* Of a matrix the mean alone. */
static uint32_t kinds_of(const void *arg, uint32_t tensor) {
  return ((const muon *)arg)->apart[tensor] ? 1 : MUON_MOMENTS;
}

int muon_plan(sp_ctx *ctx, muon *m, sp_plan *plan, int64_t chunk) {
  static const char *const kinds[MUON_MOMENTS] = {"exp_avg", "exp_avg_sq"};
  const sp_speclist *in = &plan->in[OPTIM_IN_GRADIENTS];
  free(m->matrix);
  free(m->apart);
  m->matrix = calloc(in->n + 1, sizeof *m->matrix);
  m->apart = calloc(in->n + 1, sizeof *m->apart);
  if (!m->matrix || !m->apart) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for a list of %u tensors", in->n);
  choose(m, in);
  int rc = optim_plan_of(ctx, &m->o, plan, &m->p->common, kinds, MUON_MOMENTS, chunk, kinds_of, m);
  if (rc) return rc;
  memcpy(m->o.apart, m->apart, in->n * sizeof *m->apart);
  plan->restores = optim_restores(&m->o);
  plan->slice = 0; /* matrices are whole */
  return SP_OK;
}

float muon_scale(const muon_matrix *x) {
  return x->rows > x->cols ? (float)sqrt((double)x->rows / (double)x->cols) : 1;
}

muon_rule muon_rule_of(const muon *m) {
  return (muon_rule){.momentum = (float)m->p->momentum,
                     .c = (float)(1 - m->p->momentum),
                     .nesterov = m->p->nesterov,
                     .clips = m->p->common.clip_norm > 0};
}

static const char *const edges[] = {"adamw", "muon", NULL};

const sp_param muon_param_table[] = {
    OPTIM_LR_ROW(muon_params, 0.02),
    {.name = "momentum",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(muon_params, momentum),
     .def = 0.95,
     .min = 0,
     .max = 1,
     .doc = "decay of the running mean of a matrix's gradients, below 1"},
    {.name = "nesterov",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(muon_params, nesterov),
     .idef = 1,
     .doc = "Nesterov momentum"},
    {.name = "ns_steps",
     .type = SP_PARAM_INT,
     .offset = offsetof(muon_params, ns_steps),
     .idef = 5,
     .imin = 1,
     .imax = 100,
     .doc = "Newton-Schulz steps from the momentum to the orthogonal matrix"},
    OPTIM_DECAY_ROW(muon_params, 0),
    {.name = "edges",
     .type = SP_PARAM_CHOICE,
     .offset = offsetof(muon_params, edges),
     .choices = edges,
     .doc = "what updates the first and the last matrix, which are as a rule the first and the last layer"},
    {.name = "aux_lr",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(muon_params, aux_lr),
     .def = 0.015,
     .min = 0,
     .max = 1e6,
     .doc = "AdamW's rate is so many times the learning rate"},
    {.name = "aux_betas",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(muon_params, aux_betas),
     .def_str = "0.9,0.95",
     .min = 0,
     .max = 1,
     .min_n = 2,
     .max_n = 2,
     .doc = "AdamW's decay of the running means of gradient and squared gradient"},
    {.name = "aux_eps",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(muon_params, aux_eps),
     .def = 1e-10,
     .min = 0,
     .max = 1,
     .doc = "added to AdamW's root of the mean squared gradient"},
    OPTIM_PARAM_ROWS(muon_params),
    {.name = NULL}};
