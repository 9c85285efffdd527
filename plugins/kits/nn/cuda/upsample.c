/* SPDX-License-Identifier: MIT
 * upsample.c - the host's half of upsample.cu and zoom.cu. */
#include "cuda_net.h"

static int forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  return nnc_check(c, op, nnk_upsample_forward(c->stream, op->d.mode, &y, &x));
}

static int backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  nnc_into in;
  nnc_din(c, op->in, &in);
  if (!in.dx) return SP_OK;
  return nnc_check(c, op, nnk_upsample_backward(c->stream, op->d.mode, in.dx, &dy, in.mask, in.add));
}

const nnc_op nnc_row_upsample = {.forward = forward, .backward = backward};
