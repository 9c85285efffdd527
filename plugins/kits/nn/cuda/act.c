/* SPDX-License-Identifier: MIT
 * act.c - the host's half of act.cu. */
#include "cuda_net.h"

static int act_forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  return nnc_check(c, op, nnk_act_forward(c->stream, op->d.act, op->d.act_k, &y, &x));
}

static int act_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnc_check(c, op, nnk_act_backward(c->stream, op->d.act, op->d.act_k, in.dx, &dy, &x, in.mask, in.add))
               : SP_OK;
}

static int mul_forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out), by = nnc_data(c, op->more[0]);
  return nnc_check(c, op, nnk_mul(c->stream, &y, &x, &by, NULL, 0));
}

/* Of a value by itself the second use adds to the first. */
static int mul_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  int err = 0;
  for (int i = 0; i < 2 && !err; i++) {
    nnk_map other = nnc_data(c, NN_IN(op, 1 - i));
    nnc_into in;
    nnc_din(c, NN_IN(op, i), &in);
    if (in.dx && in.dx->h * in.dx->w < dy.h * dy.w) err = nnk_mul_sum(c->stream, in.dx, &dy, &other, in.mask, in.add);
    else if (in.dx) err = nnk_mul(c->stream, in.dx, &dy, &other, in.mask, in.add);
  }
  return nnc_check(c, op, err);
}

const nnc_op nnc_row_act = {.forward = act_forward, .backward = act_backward};
const nnc_op nnc_row_mul = {.forward = mul_forward, .backward = mul_backward};
