/* SPDX-License-Identifier: MIT
 * plan.c - plans a network for CUDA: what each op needs of scratch, and how scratch is cut.
 *
 * Scratch: the fixed part (repeated biases, weights as bfloat16), which a frozen network has as
 * constants, then the values of an inference or the gradients, then an op's own memory, then pieces of the biases'
 * gradients. prepare() measures products on all that is behind the fixed part. */
#include "cuda_net.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)NN_F32 == (int)NNK_F32 && (int)NN_BF16 == (int)NNK_BF16, "one meaning in lowering and kernels");
_Static_assert((int)NN_MAX_INS <= (int)NNK_PARTS, "what one layer reads is joined by one kernel");

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

nnk_map nnc_map(const nn_val *v, int64_t n) { return (nnk_map){NULL, v->elt, v->layout, n, v->c, v->h, v->w}; }

size_t nnc_map_bytes(const nn_val *v, int64_t n) { return (size_t)(n * v->c * v->px) * (v->elt == NN_F32 ? 4 : 2); }

size_t nnc_fixed(nn_cuda *cuda, size_t bytes) {
  size_t at = cuda->fixed_bytes;
  cuda->fixed_bytes += nn_align(bytes);
  return at;
}

int nn_cuda_plan(sp_ctx *ctx, nn_cuda *cuda, sp_plan *plan, nn_net *net, const nn_bind *in, int n_in,
                 const nn_bind *out, int n_out) {
  const sp_precision *precision = ctx->host->get_extension(ctx, SP_EXT_PRECISION);
  nn_low *low = &cuda->low;
  size_t arena = 0, values;
  nn_target target = {.conv_last = 1, .enlarges = 1, .no_mask = 1u << NN_X_RELU | 1u << NN_X_COPY};
  int st;
  nn_cuda_clear(cuda);
  cuda->precision = precision ? precision->precision : SP_PRECISION_FP32;
  target.inner = cuda->precision == SP_PRECISION_BF16 ? NN_BF16 : NN_F32;
  cuda->ext = ctx->host->get_extension(ctx, SP_EXT_CUDA);
  cuda->device = nnc_device_of(cuda->ext);
  target.narrow = nnc_ways_lower(cuda);
  if ((st = nn_lower(ctx, low, &target, plan, net, in, n_in, out, n_out))) return st;
  cuda->cops = calloc((size_t)low->n_ops + 1, sizeof *cuda->cops);
  if (!cuda->cops) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan");
  if ((st = nnc_groups_find(ctx, cuda)) || (st = nn_find_factors(ctx, low, plan))) return st;
  for (int i = 0; i < low->n_ops; i++) {
    nn_xop *op = &low->ops[i];
    if (op->d.norm) {
      op->off_w = nnc_fixed(cuda, nn_weight_bytes(low, op->d.w));
      op->off_b = nnc_fixed(cuda, (size_t)low->vals[op->out].c * sizeof(float));
    }
    size_t own = 0;
    int together = low->vals[op->in].unstored || low->vals[op->out].unstored;
    if (!together && nnc_ops[op->x]->size) nnc_ops[op->x]->size(cuda, op, &own);
    arena = larger(arena, own);
    low->tmp_bytes = larger(low->tmp_bytes, nn_align(op->tmp));
    if (low->training && nnc_sums_bias(op)) {
      nnk_map dy = nnc_map(&low->vals[op->out], nn_has_factors(low, op) ? low->batch * low->shards : low->batch);
      cuda->cops[i].off_pieces = cuda->pieces_bytes;
      cuda->pieces_bytes += nn_align(nnc_sums_work(cuda, op->out, &dy));
    }
  }
  nnc_groups_size(cuda, &arena);
  if ((st = nn_place(ctx, low))) return st;
  nn_cut(low, plan);
  nn_give_factors(low, plan);
  if (low->n_parts > 1 && !(cuda->left = calloc((size_t)low->n_ops, sizeof *cuda->left)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan");
  values = larger(low->infer_bytes, low->grad_bytes) + low->tmp_bytes + cuda->pieces_bytes;
  plan->saved_bytes = low->training ? low->saved_bytes : 0;
  plan->scratch_bytes = (low->frozen ? 0 : cuda->fixed_bytes) + larger(values, arena);
  plan->const_bytes = low->frozen ? cuda->fixed_bytes : 0;
  return SP_OK;
}

size_t nnc_sums_work(const nn_cuda *cuda, int v, const nnk_map *dx) {
  const nn_low *low = &cuda->low;
  size_t work = nnk_bias_grad_work(dx);
  for (int i = 0; i < low->n_ops && low->vals[v].masked; i++)
    if (low->ops[i].in == v) work = larger(work, nnc_ways_columns(cuda, &low->ops[i]));
  return work;
}

void nn_cuda_clear(nn_cuda *cuda) {
  for (int i = 0; cuda->cops && i < cuda->low.n_ops; i++) {
    nnc_gemm_free(cuda->cops[i].products);
    nnc_conv_free(cuda->cops[i].convs);
  }
  nnc_groups_free(cuda);
  free(cuda->cops);
  free(cuda->left);
  nn_low_clear(&cuda->low);
  memset(cuda, 0, sizeof *cuda);
}
