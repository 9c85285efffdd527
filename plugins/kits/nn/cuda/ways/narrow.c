/* SPDX-License-Identifier: MIT
 * narrow.c - convolutions of few channels: narrow.cu, few.cu, which take any order of pixels. Lowering chooses them by
 * shape, since the orders of the maps beside them depend on it. */
#include "way.h"

static int (*lowers(int rounds))(int k, int64_t in, int64_t out) {
  if (rounds == SP_PRECISION_TF32) return nnk_narrow_tf32;
  return rounds == SP_PRECISION_BF16 ? nnk_narrow_bf16 : nnk_narrow;
}

static void size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  (void)arena;
  for (int64_t n = 1; n <= cuda->low.batch && cuda->low.training; n++) { /* it may rise where the batch gets smaller */
    nnk_map x = nnc_map(&cuda->low.vals[op->in], n), y = nnc_map(&cuda->low.vals[op->out], n);
    size_t work = nnk_narrow_weight_work(op->d.k[0], &x, &y, cuda->device.multiprocessors);
    if (work > op->tmp) op->tmp = work;
  }
}

static int prepare(nnc_call *c, const nn_xop *op) {
  return nnc_rounds(c->cuda) == SP_PRECISION_BF16 ? nnc_check(c, op, nnk_narrow_prepare()) : SP_OK;
}

static int forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  return nnc_check(c, op,
                   nnk_narrow_forward(c->stream, op->d.k[0], &y, &x, nnc_product_weight(c, op), nnc_product_bias(c, op),
                                      op->d.relu, nnc_rounds(c->cuda), c->cuda->device.multiprocessors));
}

static int backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  int err = 0, k = op->d.k[0], rounds = nnc_rounds(c->cuda), multiprocessors = c->cuda->device.multiprocessors;
  nnk_sum dw = nnc_grad_of(c, op->d.w), db = {0};
  nnc_into in;
  nnc_din(c, op->in, &in);
  if (op->d.bias) db = nnc_grad_of(c, op->d.w + 1);
  if (in.dx)
    err =
        nnk_narrow_data(c->stream, k, in.dx, &dy, nnc_product_weight(c, op), in.mask, in.add, rounds, multiprocessors);
  if (!err && dw.p) err = nnk_narrow_weight(c->stream, k, dw, db, &x, &dy, rounds, c->w.tmp, multiprocessors);
  else if (!err && db.p) err = nnk_bias_grad(c->stream, db, &dy, c->w.tmp);
  return nnc_check(c, op, err);
}

const nnc_op nnc_row_narrow = {.forward = forward, .backward = backward, .size = size, .prepare = prepare};

const nnc_way nnc_way_narrow = {.id = NNC_WAY_NARROW, .lowers = lowers};
