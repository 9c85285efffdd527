/* SPDX-License-Identifier: MIT
 * gemm_prepare.c - describes each product that a network needs and has its way chosen. */
#include "gemm.h"

#include <stdio.h>
#include <stdlib.h>

static void key_of(const nnc_gemm *a, char *key) {
  static const char *const parts[] = {"forward", "data", "weights", "in place cold", "applied cold"};
  static const char *const precisions[] = {"fp32", "tf32", "bf16"};
  const nn_cuda *cuda = a->job.c->cuda;
  const nn_product *p = a->p;
  const char *keyed = nnc_keyed(&a->job);
  char mask[24] = "", map[64] = "";
  if (p->masks) snprintf(mask, sizeof mask, "+mask%d", p->masks);
  if (keyed) snprintf(map, sizeof map, " %s %dx%d", keyed, (int)a->y.h, (int)a->y.w);
  snprintf(key, SP_CUDA_KEY_MAX, "product %s m%lld n%lld k%lld %s%s%s%s%s%s %s to %s%s ws%zu", parts[p->part],
           (long long)p->m, (long long)p->n, (long long)p->k, p->biased ? "bias" : "-", p->sums ? "+map" : "",
           p->relu ? "+relu" : "", mask, p->rows ? "+rows" : "", p->columns ? "+columns" : "",
           precisions[cuda->precision], p->d_elt == NN_F32 ? "f32" : "bf16", map, cuda->ext->workspace_bytes);
}

static int run_timed(void *job) { return nnc_gemm_run(job); }

/* The result y, and what becomes of it. */
static void prepare_forward(const nnc_call *c, const nn_xop *op, nnc_gemm *a, char *y) {
  nn_product *p = a->p;
  p->relu = op->d.relu;
  p->biased = nnc_has_bias(op);
  p->sums = op->d.n_more;
  a->bias = nnc_gemm_bias(c, op);
  a->lt_bias = nnc_gemm_lt_bias(c, op);
  a->y = nnc_map(&c->cuda->low.vals[op->out], c->w.n);
  a->y.p = y;
  if (p->sums) a->plus = a->y;
}

/* Of dx, a map of value `in`: its sign and the sums of its columns, behind what the product itself needs. */
static void prepare_mask(const nnc_call *c, const nn_xop *op, nnc_gemm *a, char *place) {
  const nn_low *low = &c->cuda->low;
  nn_product *p = a->p;
  const nn_val *in = &low->vals[op->in];
  if (!in->masked) return;
  p->masks = (int)in->c;
  p->columns = !low->frozen && nnc_sums_bias(&low->ops[in->producer]);
  a->dx = a->sign = nnc_map(in, c->w.n);
  a->dx.p = a->d;
  a->sign.p = place;
  if (p->columns) a->pieces = place + nn_align(nnc_map_bytes(in, c->w.n));
}

nn_product *nnc_gemm_new(const nnc_call *c, const nn_xop *op, int part, int64_t samples) {
  nn_cop *cop = &c->cuda->cops[nnc_index(c, op)];
  nn_product *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->part = part;
  p->samples = samples;
  p->next = cop->products;
  return cop->products = p;
}

static int choose(nnc_gemm *a) {
  char key[SP_CUDA_KEY_MAX];
  key_of(a, key);
  return nnc_choose(&a->job, key);
}

/* The product is measured on garbage behind the fixed part of scratch, the weights' gradient too; that of factors on
 * them. */
static int prepare(nnc_call *c, const nn_xop *op, int part) {
  const nn_cuda *cuda = c->cuda;
  const nn_low *low = &cuda->low;
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  nn_cop *cop = &cuda->cops[nnc_index(c, op)];
  nn_product *p;
  char *x = c->w.tmp, *y = x + nn_align(nnc_map_bytes(in, c->w.n)), *g = y + nn_align(nnc_map_bytes(out, c->w.n)),
       *work = g;
  int all = nnc_gemm_is_scaled(part) && nn_has_factors(low, op), status;
  int64_t pieces;
  nnc_call at = *c;
  nnc_gemm a = {.master = nnc_product_weight(c, op),
                .scale = nnc_gemm_is_scaled(part) ? &cuda->numbers[1] : NULL,
                .add = part == NNC_UPDATE,
                .n_pieces = &pieces};
  if (all) {
    if (!c->w.io->factors) return SP_OK; /* an evaluation */
    at.w.n = low->batch * low->shards;
    x = nn_factor(&c->w, in->rows);
    y = nn_factor(&c->w, out->drows);
    a.dy = nnc_map(out, at.w.n);
    a.dy.p = y;
  }
  if (nnc_gemm_find(&at, op, part)) return SP_OK;
  a.p = p = nnc_gemm_new(c, op, part, at.w.n);
  if (!p) return nnc_fail(c, op, SP_E_NOMEM, "out of memory for a product");
  a.job = (nnc_job){&at, op, NNC_PRODUCT, part, &p->by, nnc_gemm_is_scaled(part), run_timed};
  p->elt = in->elt;
  p->d_elt = part == NNC_FORWARD ? out->elt : part == NNC_DATA ? in->elt : NN_F32;
  nn_extents(low, op, at.w.n, &p->m, &p->n, &p->k);
  if (low->training) work = g + nn_align((size_t)(p->n * p->k) * sizeof(float));
  at.w.tmp = work;
  p->rows = all;
  if (all && op->d.bias) {
    p->columns = 1;
    a.db = (nnk_sum){(float *)(work + nn_align(op->tmp)), a.scale, a.add};
    a.pieces = (char *)a.db.p + nn_align((size_t)a.dy.c * sizeof(float));
  }
  a.a = part >= NNC_WEIGHT ? x : nnc_gemm_weight(c, op);
  a.b = part == NNC_FORWARD ? x : y;
  a.d = part == NNC_FORWARD ? y : part == NNC_DATA ? x : g;
  if (part == NNC_FORWARD) prepare_forward(c, op, &a, y);
  if (part == NNC_DATA) prepare_mask(c, op, &a, work + nn_align(op->tmp));
  status = choose(&a);
  if (!status) return SP_OK;
  cop->products = p->next;
  p->next = NULL;
  nnc_gemm_free(p);
  return status;
}

nn_product *nnc_gemm_find(const nnc_call *c, const nn_xop *op, int part) {
  for (nn_product *p = nnc_cop(c, op)->products; p; p = p->next)
    if (p->part == part && p->samples == c->w.n) return p;
  return NULL;
}

int nnc_gemm_handles(nnc_call *c) {
  int st = c->lt ? SP_OK : c->cuda->ext->cublaslt(c->w.ctx, &c->lt);
  return st ? st : nnc_workspace(c);
}

int nnc_gemm_prepare(nnc_call *c, const nn_xop *op) {
  const nn_low *low = &c->cuda->low;
  int status = nnc_gemm_handles(c), trained = low->training && !low->frozen, factors = nn_has_factors(low, op);
  int at_once = trained && !factors;
  if (!status) status = prepare(c, op, NNC_FORWARD);
  if (!status && low->training) status = prepare(c, op, NNC_DATA);
  if (!status && at_once) status = prepare(c, op, NNC_WEIGHT);
  if (!status && trained) status = prepare(c, op, NNC_UPDATE);
  if (!status && trained && factors) status = prepare(c, op, NNC_APPLY);
  if (!status && at_once) status = nnc_whole_prepare(c, op);
  return status;
}
