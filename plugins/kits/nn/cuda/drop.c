/* SPDX-License-Identifier: MIT
 * drop.c - the host's half of drop.cu. */
#include "../../drop.h"
#include "cuda_net.h"

static nnk_drop drop_of(const nnc_call *c, const nn_op *d) {
  nnk_drop drop = {NULL, NULL, d->salt, drop_limit(d->drop), drop_scale(d->drop), d->maps};
  if (c->w.low->draws) drop.step = c->w.io->step, drop.ids = c->w.io->ids;
  return drop;
}

static int forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  nnk_drop drop = drop_of(c, &op->d);
  return nnc_check(c, op, nnk_dropout(c->stream, &drop, &y, &x, NULL, 0));
}

/* What was dropped is drawn again. */
static int backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  nnk_drop drop = drop_of(c, &op->d);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnc_check(c, op, nnk_dropout(c->stream, &drop, in.dx, &dy, in.mask, in.add)) : SP_OK;
}

const nnc_op nnc_row_drop = {.forward = forward, .backward = backward};
