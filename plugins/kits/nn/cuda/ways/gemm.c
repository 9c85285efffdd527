/* SPDX-License-Identifier: MIT
 * gemm.c - linear, 1x1 and patch convolutions and their transposes as matrix products. */
#include "gemm.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

int nnc_gemm_repeats(const nn_xop *op) {
  return op->x == NN_X_GEMM && op->d.kind == NN_CONVT && nnc_has_bias(op) && op->d.k[0] * op->d.k[1] > 1;
}

int nnc_gemm_narrows(const nn_low *low, const nn_xop *op) {
  return op->x == NN_X_GEMM && low->vals[op->out].elt != NN_F32 && nnc_has_bias(op);
}

void nnc_gemm_size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  nn_low *low = &cuda->low;
  nn_cop *cop = &cuda->cops[op - low->ops];
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  size_t pieces, sums = 0;
  int64_t m, n, k;
  nn_extents(low, op, low->batch, &m, &n, &k);
  cop->off_cast = nnc_fixed(cuda, cuda->precision == SP_PRECISION_BF16 ? (size_t)(n * k) * 2 : 0);
  cop->off_bias = nnc_fixed(cuda, nnc_gemm_repeats(op) ? (size_t)n * sizeof(float) : 0);
  cop->off_narrow = nnc_fixed(cuda, nnc_gemm_narrows(low, op) ? (size_t)n * 2 : 0);
  nnc_ways_constants(cuda, op);
  for (int64_t s = 1; s <= low->batch; s++) {
    size_t work = nnc_ways_work(cuda, op, s);
    if (work > op->tmp) op->tmp = work;
  }
  pieces = nnc_ways_pieces(cuda, op);
  *arena = nn_align(nnc_map_bytes(in, low->batch)) + nn_align(nnc_map_bytes(out, low->batch)) + nn_align(op->tmp);
  if (low->training) *arena += nn_align((size_t)(n * k) * sizeof(float));
  if (nn_has_factors(low, op)) {
    nnk_map dy = nnc_map(out, low->batch * low->shards);
    *arena += nn_align((size_t)dy.c * sizeof(float)) + nn_align(nnk_bias_grad_work(&dy));
  }
  if (low->training && in->masked) {
    nnk_map dx = nnc_map(in, low->batch);
    sums = nn_align(nnc_sums_work(cuda, op->in, &dx));
    *arena += nn_align(nnc_map_bytes(in, low->batch)) + sums;
  }
  if (pieces) {
    nnk_map dy = nnc_map(out, low->batch);
    *arena += nn_align(nnc_map_bytes(in, low->batch)) + nn_align(pieces) + nn_align(nnk_bias_grad_work(&dy)) + sums;
  }
}

void nnc_gemm_free(nn_product *p) {
  while (p) {
    nn_product *next = p->next;
    nnc_lt_close(&p->lt);
    free(p);
    p = next;
  }
}

const void *nnc_gemm_weight(const nnc_call *c, const nn_xop *op) {
  if (c->cuda->low.vals[op->in].elt == NN_F32) return nnc_product_weight(c, op);
  return c->fixed + nnc_cop(c, op)->off_cast;
}

const float *nnc_gemm_bias(const nnc_call *c, const nn_xop *op) {
  return nnc_gemm_repeats(op) ? (float *)(c->fixed + nnc_cop(c, op)->off_bias) : nnc_product_bias(c, op);
}

const void *nnc_gemm_lt_bias(const nnc_call *c, const nn_xop *op) {
  if (nnc_gemm_narrows(&c->cuda->low, op)) return c->fixed + nnc_cop(c, op)->off_narrow;
  return nnc_gemm_bias(c, op);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
int nnc_gemm_casts(const nnc_call *c, const nn_xop *op, int backward) {
  const nn_product *p = nnc_gemm_find(c, op, backward ? NNC_DATA : NNC_FORWARD);
  return c->cuda->low.vals[op->in].elt != NN_F32 && (!p || !p->by.way->float_weights);
}

/* In small blocks where they can be: large ones wait until others leave half a multiprocessor. */
static int sum_columns(const nnc_gemm *a) {
  if (!a->db.p || a->job.by->does & NNC_COLUMNS) return cudaSuccess;
  if (a->p->elt == NN_F32) return nnc_outer_run(a, 0);
  return nnk_bias_grad(a->job.c->stream, a->db, &a->dy, a->pieces);
}

static int mask(const nnc_gemm *a) {
  void *stream = a->job.c->stream;
  unsigned does = a->job.by->does;
  if (!a->sign.p || (does & NNC_MASK && (does & NNC_COLUMNS || !a->pieces))) return cudaSuccess;
  if (does & NNC_MASK) return nnk_bias_pieces(stream, &a->dx, a->pieces, a->n_pieces);
  if (!a->pieces) return nnk_mask(stream, &a->dx, &a->dx, &a->sign, 0);
  return nnk_mask_pieces(stream, &a->dx, &a->dx, &a->sign, a->pieces, a->n_pieces);
}

int nnc_gemm_run(const nnc_gemm *a) {
  int err = sum_columns(a);
  if (!err) err = a->job.by->way->run(&a->job);
  return err ? err : mask(a);
}

static int run(nnc_call *c, const nn_xop *op, nnc_gemm *a, int part) {
  int status = nnc_gemm_handles(c);
  if (status) return status;
  a->p = nnc_gemm_find(c, op, part);
  if (!a->p) return nnc_fail(c, op, SP_E_STATE, "a batch of this size was not prepared");
  a->job = (nnc_job){.c = c, .op = op, .of = NNC_PRODUCT, .part = part, .by = &a->p->by};
  status = nnc_check(c, op, sum_columns(a));
  if (!status) status = nnc_ran(&a->job, a->p->by.way->run(&a->job));
  return status ? status : nnc_check(c, op, mask(a));
}

int nnc_gemm_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out);
  nnc_gemm a = {.a = nnc_gemm_weight(c, op),
                .b = nnc_data(c, op->in).p,
                .d = y.p,
                .master = nnc_product_weight(c, op),
                .bias = nnc_gemm_bias(c, op),
                .lt_bias = nnc_gemm_lt_bias(c, op),
                .y = y,
                .plus = nnc_product_plus(c, op)};
  int status = run(c, op, &a, NNC_FORWARD);
  return status ? status : nnc_check(c, op, nnc_finish(&a.job, &y, nnc_product_bias(c, op), &a.plus));
}

int nnc_gemm_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  nnc_gemm a = {.a = nnc_gemm_weight(c, op), .b = dy.p, .master = nnc_product_weight(c, op)};
  const nn_product *all = nnc_gemm_find(c, op, NNC_BACKWARD);
  nnk_sum g = nnc_grad_of(c, op->d.w);
  nnc_into in;
  int st = SP_OK;
  nnc_din(c, op->in, &in);
  if (in.dx && g.p && all && all->by.does & NNC_ALL) return nnc_whole_backward(c, op, in.dx, in.add, in.mask != NULL);
  if (in.dx) {
    a.d = in.dx->p;
    a.dx = *in.dx;
    a.add = in.add;
    if (in.mask) {
      a.sign = *in.mask;
      a.pieces = nnc_mask_sums(c, op->in, &a.n_pieces);
    }
    st = run(c, op, &a, NNC_DATA);
  }
  if (!st) st = nnc_plus_backward(c, op);
  if (!st) st = nnc_bias_grad(c, op);
  if (st || !g.p) return st;
  a = (nnc_gemm){.a = x.p, .b = dy.p, .d = g.p, .scale = g.scale, .add = g.add};
  return run(c, op, &a, g.scale ? NNC_UPDATE : NNC_WEIGHT);
}

int nnc_gemm_apply(nnc_call *c, const nn_xop *op) {
  const nn_low *low = c->w.low;
  nnk_sum g = nnc_applied(c, op->d.w);
  nnc_gemm a = {.a = nn_factor(&c->w, low->vals[op->in].rows),
                .b = nn_factor(&c->w, low->vals[op->out].drows),
                .d = g.p,
                .scale = g.scale,
                .add = g.add,
                .dy = nnc_map(&low->vals[op->out], c->w.n),
                .pieces = c->w.more + nnc_cop(c, op)->off_pieces};
  a.dy.p = (void *)(uintptr_t)a.b;
  if (op->d.bias) a.db = nnc_applied(c, op->d.w + 1);
  return run(c, op, &a, a.add ? NNC_UPDATE : NNC_APPLY);
}
