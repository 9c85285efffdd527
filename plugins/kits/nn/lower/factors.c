/* SPDX-License-Identifier: MIT
 * factors.c - which products leave their weights' gradients to the end of a step.
 *
 * The gradient of w in y[m][n] = x[m][k] w[n][k] is dy^T x, a sum over rows. Where a step has several shards it is one
 * product over the rows of all of them instead of a sum of gradients, if those rows are fewer bytes. Shapes and shards
 * alone decide, so that the bits do not hang on where the shards are computed. */
#include "lower.h"

#include <stdlib.h>

void nn_extents(const nn_low *low, const nn_xop *op, int64_t samples, int64_t *m, int64_t *n, int64_t *k) {
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  int64_t kk = op->d.kind == NN_LINEAR ? 1 : (int64_t)op->d.k[0] * op->d.k[1];
  int t = op->d.kind == NN_CONVT;
  *m = samples * (t ? in->px : out->px);
  *n = t ? kk * out->c : out->c;
  *k = t ? in->c : kk * in->c;
}

static int64_t elt_bytes(const nn_val *v) { return v->elt == NN_F32 ? 4 : 2; }

static int pays(const nn_low *low, const nn_xop *op) {
  int64_t m, n, k;
  if (op->x != NN_X_GEMM || op->together) return 0;
  nn_extents(low, op, low->batch * low->shards, &m, &n, &k);
  return m * (k * elt_bytes(&low->vals[op->in]) + n * elt_bytes(&low->vals[op->out])) < n * k * (int64_t)sizeof(float);
}

static int add(nn_low *low, const nn_val *v, int64_t rows, int64_t cols, int forward) {
  sp_factor *f = &low->factors[low->n_factors++];
  f->spec = (sp_spec){.dtype = v->elt == NN_F32 ? SP_F32 : SP_BF16, .ndim = 2, .shape = {rows, cols}};
  f->forward = (uint32_t)forward;
  return low->n_factors;
}

int nn_find_factors(sp_ctx *ctx, nn_low *low, const sp_plan *plan) {
  low->shards = plan->shards;
  if (plan->shards < 2 || !low->training || low->frozen) return SP_OK;
  low->factors = calloc((size_t)low->n_ops * 2 + 1, sizeof *low->factors);
  if (!low->factors) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan");
  for (int i = 0; i < low->n_ops && low->n_factors + 2 <= SP_MAX_FACTORS; i++) {
    nn_xop *op = &low->ops[i];
    nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
    int64_t m, n, k;
    if (!pays(low, op)) continue;
    nn_extents(low, op, low->batch, &m, &n, &k);
    if (!in->rows) in->rows = add(low, in, m, k, 1);
    out->drows = add(low, out, m, n, 0);
    for (int j = 0; j < 2; j++)
      if (nn_has_weight(&op->d, j)) low->net.weights[op->d.w + j].flags |= SP_WEIGHT_FACTORS;
  }
  return SP_OK;
}

void nn_give_factors(nn_low *low, sp_plan *plan) {
  for (int i = 0; i < low->n_ops; i++) {
    const nn_xop *op = &low->ops[i];
    if (!nn_has_factors(low, op)) continue;
    sp_factor *f = &low->factors[low->vals[op->out].drows - 1];
    f->part = (uint32_t)op->part;
    f->early = (uint32_t)(op->part - op->arrives);
  }
  plan->n_factors = (uint32_t)low->n_factors;
  plan->factors = low->factors;
}
