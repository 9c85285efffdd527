/* SPDX-License-Identifier: MIT
 * gemm.c - linear, 1x1 and patch convolutions and their transposes as matrix products. */
#include "gemm.h"

#include <stdlib.h>

int nnc_gemm_repeats(const nn_xop *op) {
  return op->x == NN_X_GEMM && op->d.kind == NN_CONVT && nnc_has_bias(op) && op->d.k[0] * op->d.k[1] > 1;
}

int nnc_gemm_narrows(const nn_low *low, const nn_xop *op) {
  return op->x == NN_X_GEMM && low->vals[op->out].elt != NN_F32 && nnc_has_bias(op);
}

int nnc_gemm_may_patch(const nn_cuda *cuda, const nn_xop *op) {
  return cuda->low.training && !cuda->low.frozen && cuda->precision == SP_PRECISION_TF32 &&
         cuda->low.vals[op->in].elt == NN_F32 && !nn_has_factors(&cuda->low, op);
}

void nnc_gemm_size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  nn_low *low = &cuda->low;
  nn_cop *cop = &cuda->cops[op - low->ops];
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  size_t patch = 0, sums = 0;
  int64_t m, n, k;
  nn_extents(low, op, low->batch, &m, &n, &k);
  cop->off_cast = nnc_fixed(cuda, cuda->precision == SP_PRECISION_BF16 ? (size_t)(n * k) * 2 : 0);
  cop->off_bias = nnc_fixed(cuda, nnc_gemm_repeats(op) ? (size_t)n * sizeof(float) : 0);
  cop->off_narrow = nnc_fixed(cuda, nnc_gemm_narrows(low, op) ? (size_t)n * 2 : 0);
  nnc_wide_size(cuda, op);
  for (int64_t s = 1; s <= low->batch; s++) {
    nn_extents(low, op, s, &m, &n, &k);
    if (m <= NNK_SKINNY && nnk_skinny_work(m, n, k) > op->tmp) op->tmp = nnk_skinny_work(m, n, k);
    size_t whole = nnc_gemm_may_patch(cuda, op) ? nnk_patch_work(m, n, k, cuda->device.multiprocessors) : 0;
    if (whole > patch) patch = whole;
  }
  cop->off_patch = cuda->pieces_bytes;
  cuda->pieces_bytes += nn_align(patch);
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
  if (patch) {
    nnk_map dy = nnc_map(out, low->batch);
    *arena += nn_align(nnc_map_bytes(in, low->batch)) + nn_align(patch) + nn_align(nnk_bias_grad_work(&dy)) + sums;
  }
}

void nnc_gemm_free(nn_product *p) {
  while (p) {
    nn_product *next = p->next;
    nnc_gemm_close(p);
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

const void *nnc_gemm_wide(const nnc_call *c, const nn_xop *op) {
  return nnc_cop(c, op)->off_wide ? c->fixed + nnc_cop(c, op)->off_wide : NULL;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
int nnc_gemm_casts(const nnc_call *c, const nn_xop *op, int backward) {
  const nn_product *p = nnc_gemm_find(c, op, backward ? DATA : FORWARD);
  return c->cuda->low.vals[op->in].elt != NN_F32 && (!p || p->how != SKINNY);
}

static int run(nnc_call *c, const nn_xop *op, nnc_gemm *a, int kind) {
  int err, st = nnc_gemm_handles(c);
  if (st) return st;
  a->c = c;
  a->p = nnc_gemm_find(c, op, kind);
  if (!a->p) return nnc_fail(c, op, SP_E_STATE, "a batch of this size was not prepared");
  st = nnc_check(c, op, nnc_gemm_columns(a));
  if (st) return st;
  if (nnc_gemm_is_own(a->p)) st = nnc_check(c, op, nnc_gemm_own(a));
  else if ((err = nnc_gemm_lt(a))) return nnc_fail(c, op, SP_E_DEVICE, cublasLtGetStatusString((cublasStatus_t)err));
  return st ? st : nnc_check(c, op, nnc_gemm_mask(a));
}

/* The map is added by the product itself, whether fused or plain. */
int nnc_gemm_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out);
  const float *bias = nnc_product_bias(c, op);
  nnc_gemm a = {.a = nnc_gemm_weight(c, op),
                .b = nnc_data(c, op->in).p,
                .d = y.p,
                .master = nnc_product_weight(c, op),
                .bias = nnc_gemm_bias(c, op),
                .lt_bias = nnc_gemm_lt_bias(c, op),
                .y = y,
                .plus = nnc_product_plus(c, op),
                .wide = nnc_gemm_wide(c, op)};
  int st = run(c, op, &a, FORWARD);
  if (st || a.p->how != PLAIN || !(bias || op->d.relu)) return st;
  return nnc_check(c, op, nnk_bias_relu(c->stream, &y, &y, bias, NULL, op->d.relu));
}

/* dx and dw are both wanted. A masked gradient is complete, and its sums are those of the bias before it. */
static int patch_backward(nnc_call *c, const nn_xop *op, const nnk_map *dx, int add, int relu) {
  nnc_whole b = {.x = nnc_data(c, op->in), .dx = *dx, .dy = nnc_grad(c, op->out), .relu = relu};
  nnk_pieces dw = {.dst = nnc_grad_of(c, op->d.w)}, db = {.pieces = 0}, data;
  int st;
  if (op->d.bias && c->pieces[nnc_index(c, op)] >= 0) db.dst = nnc_grad_of(c, op->d.w + 1);
  b.data = (nnc_gemm){.c = c, .p = nnc_gemm_find(c, op, DATA), .add = add, .master = nnc_weight(c, op->d.w)};
  st = nnc_check(c, op, nnc_gemm_patch(&b, (float *)(c->w.more + nnc_cop(c, op)->off_patch), &dw, &db, &data));
  if (!st) st = nnc_add_later(c, &dw);
  if (!st && relu) st = nnc_bias_later(c, op->in, data);
  return st || !db.dst.p ? st : nnc_add_later(c, &db);
}

int nnc_gemm_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  nnc_gemm a = {.a = nnc_gemm_weight(c, op), .b = dy.p, .master = nnc_product_weight(c, op)};
  const nn_product *all = nnc_gemm_find(c, op, BACKWARD);
  nnk_sum g = nnc_grad_of(c, op->d.w);
  nnc_into in;
  int st = SP_OK;
  nnc_din(c, op->in, &in);
  if (in.dx && g.p && all && all->how == PATCH) return patch_backward(c, op, in.dx, in.add, in.mask != NULL);
  if (in.dx) {
    a.d = in.dx->p;
    a.dx = *in.dx;
    a.add = in.add;
    if (in.mask) {
      a.sign = *in.mask;
      a.pieces = nnc_mask_sums(c, op->in, &a.n_pieces);
    }
    st = run(c, op, &a, DATA);
  }
  if (!st) st = nnc_plus_backward(c, op);
  if (!st) st = nnc_bias_grad(c, op);
  if (st || !g.p) return st;
  a = (nnc_gemm){.a = x.p, .b = dy.p, .d = g.p, .scale = g.scale, .add = g.add};
  return run(c, op, &a, g.scale ? UPDATE : WEIGHT);
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
  return run(c, op, &a, a.add ? UPDATE : APPLY);
}
