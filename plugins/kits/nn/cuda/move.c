/* SPDX-License-Identifier: MIT
 * move.c - the host's half of move.cu: copies, ReLU alone, sums, concatenations. */
#include "cuda_net.h"

/* The result of a copy, or its gradient, as a map of the source's extents: flattened, it is planar. */
static nnk_map copied(const nnc_call *c, const nn_xop *op, nnk_map out) {
  nnk_map m = nnc_data(c, op->in);
  m.p = out.p;
  m.elt = out.elt;
  m.layout = op->to;
  return m;
}

static int copy_forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = copied(c, op, nnc_data(c, op->out));
  return nnc_check(c, op, nnk_copy(c->stream, &y, &x, 0));
}

static int copy_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = copied(c, op, nnc_grad(c, op->out));
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnc_check(c, op, nnk_copy(c->stream, in.dx, &dy, in.add)) : SP_OK;
}

static int relu_forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  return nnc_check(c, op, nnk_relu(c->stream, &y, &x));
}

static int relu_backward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out), dy = nnc_grad(c, op->out);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnc_check(c, op, nnk_mask(c->stream, in.dx, &dy, &y, in.add)) : SP_OK;
}

static int add_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out), first = nnc_data(c, op->in);
  int err = 0;
  for (int i = 1; i <= op->d.n_more && !err; i++) {
    nnk_map x = nnc_data(c, NN_IN(op, i));
    err = nnk_add(c->stream, &y, i > 1 ? &y : &first, &x, op->d.relu && i == op->d.n_more);
  }
  return nnc_check(c, op, err);
}

/* Of a value that is read twice the second use adds to the first. */
static int add_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  int err = 0;
  for (int i = 0; i <= op->d.n_more && !err; i++) {
    nnc_into in;
    nnc_din(c, NN_IN(op, i), &in);
    if (in.dx) err = nnk_mask(c->stream, in.dx, &dy, in.mask, in.add);
  }
  return nnc_check(c, op, err);
}

static int concat_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out), x[NN_MAX_INS];
  for (int i = 0; i <= op->d.n_more; i++) x[i] = nnc_data(c, NN_IN(op, i));
  return nnc_check(c, op, nnk_concat(c->stream, &y, 1 + op->d.n_more, x));
}

static int concat_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  int64_t first = 0;
  int err = 0;
  for (int i = 0; i <= op->d.n_more && !err; i++) {
    nnc_into in;
    nnc_din(c, NN_IN(op, i), &in);
    if (in.dx) err = nnk_split(c->stream, in.dx, &dy, first, in.mask, in.add);
    first += c->w.low->vals[NN_IN(op, i)].c;
  }
  return nnc_check(c, op, err);
}

const nnc_op nnc_row_copy = {.forward = copy_forward, .backward = copy_backward};
const nnc_op nnc_row_relu = {.forward = relu_forward, .backward = relu_backward};
const nnc_op nnc_row_add = {.forward = add_forward, .backward = add_backward};
const nnc_op nnc_row_concat = {.forward = concat_forward, .backward = concat_backward};
