/* SPDX-License-Identifier: MIT
 * pool.c - the host's half of pool.cu. */
#include "cuda_net.h"

static nnk_window window_of(const nn_xop *op) {
  const nn_op *d = &op->d;
  return (nnk_window){{d->k[0], d->k[1]}, {d->s[0], d->s[1]}, {d->p[0], d->p[1]}};
}

static int forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  return nnc_check(c, op, nnk_pool_forward(c->stream, op->d.kind == NN_MAX_POOL, &y, &x, window_of(op)));
}

static int backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  int max = op->d.kind == NN_MAX_POOL;
  nnc_into in;
  nnc_din(c, op->in, &in);
  if (!in.dx) return SP_OK;
  return nnc_check(c, op, nnk_pool_backward(c->stream, max, in.dx, &dy, &x, window_of(op), in.mask, in.add));
}

const nnc_op nnc_row_pool = {.forward = forward, .backward = backward};
