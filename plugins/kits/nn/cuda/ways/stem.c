/* SPDX-License-Identifier: MIT
 * stem.c - a narrow convolution and the patch convolution of its map as one, which does not store the map: stem.cu,
 * where products may round to TF32. It is not measured: that the map between has no memory is decided with the plan. */
#include "way.h"

enum { FIRST, SECOND };

/* Who else reads op's input: in a call 1, if such a result is wanted; before (at NULL), 1 if it cannot be left out in
 * any call. Without a backward what only gives the value out can, where nobody wants it. */
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

static int matches(const nn_cuda *cuda, int i, nnc_group *group) {
  const nn_low *low = &cuda->low;
  const nn_xop *op = &low->ops[i], *first;
  const nn_val *between = &low->vals[op->in], *out = &low->vals[op->out];
  nnk_map x, y = nnc_map(out, low->batch);
  if (nnc_rounds(cuda) != SP_PRECISION_TF32 || op->x != NN_X_GEMM || op->d.kind != NN_CONV || op->d.k[0] != 2 ||
      between->producer < 0 || between->out_port >= 0 || read_besides(low, op, NULL))
    return 0;
  first = &low->ops[between->producer];
  x = nnc_map(&low->vals[first->in], low->batch);
  group->op[FIRST] = between->producer;
  group->op[SECOND] = i;
  return first->x == NN_X_NARROW && first->d.k[0] == 1 && first->d.relu && nnk_stem(&x, between->c, &y);
}

static void join(nn_cuda *cuda, const nnc_group *group) {
  nn_low *low = &cuda->low;
  nn_val *between = &low->vals[low->ops[group->op[SECOND]].in];
  low->ops[group->op[FIRST]].together = low->ops[group->op[SECOND]].together = 1;
  between->unstored = between->uses == 1;
}

/* The pieces of all four gradients. */
static void size(nn_cuda *cuda, const nnc_group *group, size_t *arena) {
  const nn_low *low = &cuda->low;
  nnk_map x = nnc_map(&low->vals[low->ops[group->op[FIRST]].in], low->batch);
  nnk_map y = nnc_map(&low->vals[low->ops[group->op[SECOND]].out], low->batch);
  (void)arena;
  cuda->cops[group->op[SECOND]].at[NNC_WAY_STEM] = cuda->pieces_bytes;
  if (low->training) cuda->pieces_bytes += nn_align(nnk_stem_work(&x, &y, cuda->device.multiprocessors));
}

/* Whether somebody wants the value between in this call all the same. */
static void bind(const nnc_call *c, const nnc_group *group) {
  const nn_xop *second = &c->w.low->ops[group->op[SECOND]];
  c->w.at[second->in].wanted = read_besides(c->w.low, second, c->w.at) != 0;
}

static int prepare(nnc_call *c, const nnc_group *group) {
  return nnc_check(c, &c->cuda->low.ops[group->op[SECOND]], nnk_stem_prepare());
}

static nnk_layers layers_of(const nnc_call *c, const nn_xop *first, const nn_xop *second) {
  return (nnk_layers){nnc_product_weight(c, first), nnc_product_bias(c, first), nnc_product_weight(c, second),
                      nnc_product_bias(c, second), second->d.relu};
}

static int forward(nnc_call *c, const nnc_group *group, const nn_xop *op, int *status) {
  const nn_xop *first = &c->cuda->low.ops[group->op[FIRST]];
  nnk_map x = nnc_data(c, first->in), y = nnc_data(c, op->out);
  nnk_layers layers = layers_of(c, first, op);
  if (op == first || c->w.at[op->in].wanted) return 0;
  *status = nnc_check(c, op, nnk_stem_forward(c->stream, &y, &x, &layers, c->cuda->device.multiprocessors));
  return 1;
}

static int run_backward(nnc_call *c, const nn_xop *first, const nn_xop *op) {
  const nn_op *of[2] = {&op->d, &first->d};
  nnk_map x = nnc_data(c, first->in), dy = nnc_grad(c, op->out);
  nnk_layers layers = layers_of(c, first, op);
  nnk_pieces sums[4] = {{.pieces = 0}};
  float *work = (float *)(c->w.more + nnc_cop(c, op)->at[NNC_WAY_STEM]);
  int there = c->pieces[nnc_index(c, op)] < 0, status; /* of op's bias: they came with the gradient */
  nnc_into in;
  nnc_din(c, first->in, &in);
  status = nnc_check(
      c, op,
      nnk_stem_backward(c->stream, in.dx, in.add, &dy, &x, &layers, work, sums, c->cuda->device.multiprocessors));
  for (int i = 0; i < 4 && !status; i++) {
    const nn_op *d = of[i / 2];
    if (i % 2 && (!d->bias || (i == 1 && there))) continue;
    sums[i].dst = nnc_grad_of(c, d->w + i % 2);
    if (sums[i].dst.p) status = nnc_add_later(c, &sums[i]);
  }
  return status;
}

static int backward(nnc_call *c, const nnc_group *group, const nn_xop *op, int *status) {
  const nn_xop *first = &c->cuda->low.ops[group->op[FIRST]];
  if (op == first) return 0;
  *status = run_backward(c, first, op);
  return 1;
}

static const nnc_together together = {.matches = matches,
                                      .join = join,
                                      .size = size,
                                      .bind = bind,
                                      .prepare = prepare,
                                      .forward = forward,
                                      .backward = backward};

const nnc_way nnc_way_stem = {.id = NNC_WAY_STEM, .does = NNC_ALL, .together = &together};
