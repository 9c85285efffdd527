/* SPDX-License-Identifier: MIT
 * stem.c - the host's half of stem.cu: a narrow convolution and the patch convolution of its map. */
#include "../cuda_net.h"

/* Who else reads op's input: in a call 1, if such a result is wanted; before (at NULL), 1 if it cannot be left out in any
 * call. Without a backward what only gives the value out can, where nobody wants it. */
static int read_besides(const nn_low *low, const nn_xop *op, const nn_at *at) {
  for (int i = 0; i < low->n_ops; i++) {
    const nn_xop *other = &low->ops[i];
    const nn_val *out = &low->vals[other->out];
    int reads = 0;
    for (int j = 0; j <= other->d.n_more; j++) reads |= NN_IN(other, j) == op->in;
    if (other == op || !reads) continue;
    if (at ? at[other->out].wanted : low->training || out->out_port < 0 || out->uses) return 1;
  }
  return 0;
}

void nnc_stem_find(nn_cuda *cuda) {
  nn_low *low = &cuda->low;
  if (nnc_rounds(cuda) != SP_PRECISION_TF32) return;
  for (int i = 0; i < low->n_ops; i++) {
    const nn_xop *op = &low->ops[i], *first;
    nn_val *between = &low->vals[op->in], *out = &low->vals[op->out];
    nnk_map x, y = nnc_map(out, low->batch);
    if (op->x != NN_X_GEMM || op->d.kind != NN_CONV || op->d.k[0] != 2 || between->producer < 0 ||
        between->out_port >= 0 || read_besides(low, op, NULL))
      continue;
    first = &low->ops[between->producer];
    x = nnc_map(&low->vals[first->in], low->batch);
    if (first->x != NN_X_NARROW || first->d.k[0] != 1 || !first->d.relu || !nnk_stem(&x, between->c, &y)) continue;
    cuda->cops[i].first = first;
    low->ops[i].together = low->ops[between->producer].together = 1;
    between->unstored = between->uses == 1;
  }
}

void nnc_stem_choose(const nnc_call *c) {
  const nn_low *low = c->w.low;
  for (int i = 0; i < low->n_ops; i++)
    if (c->cuda->cops[i].first) c->w.at[low->ops[i].in].wanted = read_besides(low, &low->ops[i], c->w.at) != 0;
}

void nnc_stem_size(nn_cuda *cuda, const nn_xop *op) {
  nn_low *low = &cuda->low;
  nn_cop *cop = &cuda->cops[op - low->ops];
  nnk_map x = nnc_map(&low->vals[cop->first->in], low->batch), y = nnc_map(&low->vals[op->out], low->batch);
  cop->off_stem = cuda->pieces_bytes;
  if (low->training) cuda->pieces_bytes += nn_align(nnk_stem_work(&x, &y, cuda->device.multiprocessors));
}

int nnc_stem_prepare(nnc_call *c, const nn_xop *op) { return nnc_check(c, op, nnk_stem_prepare()); }

static nnk_layers layers_of(const nnc_call *c, const nn_xop *op) {
  const nn_xop *first = nnc_cop(c, op)->first;
  return (nnk_layers){nnc_product_weight(c, first), nnc_product_bias(c, first), nnc_product_weight(c, op),
                      nnc_product_bias(c, op), op->d.relu};
}

int nnc_stem_forward(nnc_call *c, const nn_xop *op) {
  nnk_layers layers = layers_of(c, op);
  nnk_map x = nnc_data(c, nnc_cop(c, op)->first->in), y = nnc_data(c, op->out);
  return nnc_check(c, op, nnk_stem_forward(c->stream, &y, &x, &layers, c->cuda->device.multiprocessors));
}

int nnc_stem_backward(nnc_call *c, const nn_xop *op) {
  const nn_xop *first = nnc_cop(c, op)->first;
  const nn_op *of[2] = {&op->d, &first->d};
  nnk_map x = nnc_data(c, first->in), dy = nnc_grad(c, op->out);
  nnk_layers layers = layers_of(c, op);
  nnk_pieces sums[4] = {{.pieces = 0}};
  float *work = (float *)(c->w.more + nnc_cop(c, op)->off_stem);
  int there = c->pieces[nnc_index(c, op)] < 0, st; /* of op's bias: they came with the gradient */
  nnc_into in;
  nnc_din(c, first->in, &in);
  st = nnc_check(
      c, op,
      nnk_stem_backward(c->stream, in.dx, in.add, &dy, &x, &layers, work, sums, c->cuda->device.multiprocessors));
  for (int i = 0; i < 4 && !st; i++) {
    const nn_op *d = of[i / 2];
    if (i % 2 && (!d->bias || (i == 1 && there))) continue;
    sums[i].dst = nnc_grad_of(c, d->w + i % 2);
    if (sums[i].dst.p) st = nnc_add_later(c, &sums[i]);
  }
  return st;
}
