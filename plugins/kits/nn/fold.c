/* SPDX-License-Identifier: MIT
 * fold.c - what a network whose weights stay as they are can spare. */
#include "lower.h"

enum { FOLDED = -1 }; /* a kind of no op */

static int is_product(const nn_op *op) {
  return op->kind == NN_OP_CONV || op->kind == NN_OP_CONVT || op->kind == NN_OP_LINEAR;
}

/* The op that makes value v, for one reader only; NULL: there is none. */
static nn_op *made_for_one(nn_net *net, int v, const uint8_t *keep) {
  nn_op *made = NULL;
  int reads = 0;
  for (int i = 0; i < net->n_ops; i++) {
    nn_op *op = &net->ops[i];
    if (op->out == v) made = op;
    for (int j = 0; j <= op->n_more; j++) reads += NN_IN(op, j) == v;
  }
  return reads == 1 && !keep[v] ? made : NULL;
}

static int place_of(const nn_net *net, int v) { /* -1: an input */
  int i = net->n_ops - 1;
  while (i >= 0 && net->ops[i].out != v) i--;
  return i;
}

static int fold_norm(nn_net *net, const nn_op *norm, const uint8_t *keep) {
  nn_op *op = made_for_one(net, norm->in, keep);
  if (!op || !is_product(op) || op->relu || op->norm) return 0;
  op->norm = norm->w + 1;
  op->eps = norm->eps;
  op->relu = norm->relu;
  op->out = norm->out;
  return 1;
}

/* The later of two results has the other one to add. */
static int fold_sum(nn_net *net, const nn_target *target, const nn_op *sum, const uint8_t *keep) {
  int last = place_of(net, sum->in) > place_of(net, sum->more[0]) ? sum->in : sum->more[0];
  nn_op *op = sum->n_more == 1 ? made_for_one(net, last, keep) : NULL;
  if (!op || !is_product(op) || op->relu || op->n_more || !nn_may_add(net, target, op)) return 0;
  op->more[op->n_more++] = last == sum->in ? sum->more[0] : sum->in;
  op->relu = sum->relu;
  op->out = sum->out;
  return 1;
}

/* Once all norms are where they can be: a sum then finds the products behind them. What was folded is read by no search,
 * so ops move up only at the end. */
static void without(nn_net *net, const nn_target *target, const uint8_t *keep, int kind) {
  int n = 0;
  for (int i = 0; i < net->n_ops; i++) {
    nn_op *op = &net->ops[i];
    if (op->kind != kind || !(kind == NN_OP_ADD ? fold_sum(net, target, op, keep) : fold_norm(net, op, keep))) continue;
    *op = (nn_op){.kind = FOLDED, .in = -1, .out = -1};
  }
  for (int i = 0; i < net->n_ops; i++)
    if (net->ops[i].kind != FOLDED) net->ops[n++] = net->ops[i];
  net->n_ops = n;
}

void nn_fold(nn_net *net, const nn_target *target, const uint8_t *keep) {
  without(net, target, keep, NN_OP_BATCH_NORM);
  without(net, target, keep, NN_OP_ADD);
}

nn_channels nn_channels_of(const nn_low *low, const nn_xop *op) {
  const nn_op *d = &op->d;
  const sp_spec *w = &low->net.weights[d->w].spec;
  int64_t all = (int64_t)(nn_weight_bytes(low, d->w) / sizeof(float)), out = low->vals[op->out].c, in;
  if (d->kind != NN_OP_CONVT) return (nn_channels){all / out, out, all};
  in = low->vals[op->in].c;
  if (w->order == SP_ORDER4(2, 3, 1, 0)) return (nn_channels){in, out, all};
  return (nn_channels){w->order == SP_CHANNELS_LAST ? 1 : (int64_t)d->k[0] * d->k[1], out / d->groups, all / d->groups};
}
