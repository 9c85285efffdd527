/* SPDX-License-Identifier: MIT
 * muon.h - steps along the orthogonal matrix that is nearest to the momentum: parameters, checks, kernels. */
#ifndef MUON_H
#define MUON_H

#include "../../kits/optim/optim_kernels.h"
#include "../../kits/pair.h"

#define MUON_DOC \
  "Muon: matrices take steps along the orthogonal matrix that is nearest to their momentum, others AdamW's"

/* Of a Newton-Schulz step: X = MUON_1 X + (MUON_3 A + MUON_5 A A) X, A = X transposed(X). */
#define MUON_1 3.4445f
#define MUON_3 -4.7750f
#define MUON_5 2.0315f
#define MUON_TINY 1e-7f

enum { MUON_MEAN, MUON_SQUARE, MUON_MOMENTS }; /* SQUARE: of what AdamW updates */
enum { MUON_EDGES_ADAMW, MUON_EDGES_MUON };

typedef struct muon_params {
  double lr, momentum;
  int64_t ns_steps;
  double weight_decay, aux_lr;
  sp_floats aux_betas;
  double aux_eps;
  int32_t nesterov, edges;
  optim_params common;
} muon_params;

/* A tensor as a matrix, row-major. */
typedef struct muon_matrix {
  int64_t rows, cols;
} muon_matrix;

typedef struct muon {
  const muon_params *p;
  optim o;
  muon_matrix *matrix; /* [n] */
  uint8_t *apart;      /* [n] 1: a matrix that Muon updates */
} muon;

#ifdef __cplusplus
extern "C" {
#endif

extern const sp_param muon_param_table[];

int muon_create(sp_ctx *ctx, const void *params, void **self);
void muon_destroy(void *self);
int muon_plan(sp_ctx *ctx, muon *m, sp_plan *plan, int64_t chunk); /* all but the scratch */

/* What a step is multiplied by, beside the rate: sqrt(max(1, rows / cols)). */
float muon_scale(const muon_matrix *x);

static inline int64_t muon_short(const muon_matrix *x) { return x->rows < x->cols ? x->rows : x->cols; }

/* Constants of an update, and of the matrix that it is for; c: 1 - b. */
typedef struct muon_rule {
  float momentum, c, scale;
  int nesterov, clips;
} muon_rule;

muon_rule muon_rule_of(const muon *m);

/* On CUDA. t has one matrix, x is what its elements give, then its step; part: [chunks]. */
int muonk_load(void *stream, const opk_table *t, const muon_rule *rule, float *x, double *part, float *factor,
               const opk_head *head, int64_t *status);
/* b = MUON_3 a + b, of n x n */
int muonk_polynomial(void *stream, const float *a, float *b, int64_t n);
int muonk_apply(void *stream, const opk_table *t, const muon_rule *rule, const float *x, const opk_head *head);
int muonk_others(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status);

#ifdef __cplusplus
}
#endif

/* What the stage is on every device. */
#define MUON_PAIR                                                                                                      \
  SP_STAGE_PAIR(muon, SP_STAGE_OPTIMIZER, MUON_DOC, .doc = MUON_DOC, .inputs = optim_inputs, .outputs = optim_outputs, \
                .params = muon_param_table, .params_size = sizeof(muon_params), .status_doc = OPTIM_STATUS_DOC,        \
                .create = muon_create, .destroy = muon_destroy)

#endif
