/* SPDX-License-Identifier: MIT
 * fold.c - ops that others do besides: batch norms, sums and activations of a network whose weights stay as they are,
 * and maps that are only enlarged to be joined. */
#include "lower.h"

#include "../ops/axis.h"
#include "../ops/row.h"

static int is_product(const nn_op *op) { return nn_is(op->kind, NN_PRODUCT); }

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

static int fold_act(nn_net *net, const nn_target *target, const nn_op *act, const uint8_t *keep) {
  nn_op *op = made_for_one(net, act->in, keep);
  if (!op || !is_product(op) || op->relu || op->act || op->n_more || !nn_may_act(net, target, op)) return 0;
  op->act = act->act;
  op->act_k = act->act_k;
  op->out = act->out;
  return 1;
}

/* Is op's result each pixel of what it reads some times over? Of one pixel the gradient is a sum over the whole map,
 * which is no thread's work. */
static int repeats(const nn_net *net, const nn_op *up) {
  const nn_value *x = &net->values[up->in], *y = &net->values[up->out];
  nn_axis ay = nn_axis_of((int)x->h, (int)y->h, up->mode), ax = nn_axis_of((int)x->w, (int)y->w, up->mode);
  return x->h * x->w > 1 && nn_axis_times(&ay) && nn_axis_times(&ax);
}

static int only_joined(const nn_net *net, int value) {
  for (int i = 0; i < net->n_ops; i++)
    for (int j = 0; j <= net->ops[i].n_more; j++)
      if (NN_IN(&net->ops[i], j) == value && net->ops[i].kind != NN_CONCAT) return 0;
  return 1;
}

/* Concatenations read the smaller map itself, where nothing else sees the enlarged one. */
static int fold_upsample(nn_net *net, const nn_op *up, const uint8_t *keep) {
  if (!repeats(net, up) || keep[up->out] || !only_joined(net, up->out)) return 0;
  for (int i = 0; i < net->n_ops; i++)
    for (int j = 0; j <= net->ops[i].n_more; j++) {
      int *in = j ? &net->ops[i].more[j - 1] : &net->ops[i].in;
      if (*in == up->out) *in = up->in;
    }
  return 1;
}

static int fold(nn_net *net, const nn_target *target, const nn_op *op, const uint8_t *keep) {
  switch (nn_rows[op->kind]->folds) {
    case NN_FOLDS_ENLARGING: return fold_upsample(net, op, keep);
    case NN_FOLDS_NORM: return fold_norm(net, op, keep);
    case NN_FOLDS_SUM: return fold_sum(net, target, op, keep);
    case NN_FOLDS_ACT: return fold_act(net, target, op, keep);
    case NN_STAYS: break;
  }
  return 0;
}

/* What was folded is read by no search, so ops move up only at the end: in = out = -1 till then. */
static void without(nn_net *net, const nn_target *target, const uint8_t *keep, enum nn_folds what) {
  int n = 0;
  for (int i = 0; i < net->n_ops; i++)
    if (nn_rows[net->ops[i].kind]->folds == what && fold(net, target, &net->ops[i], keep))
      net->ops[i] = (nn_op){.in = -1, .out = -1};
  for (int i = 0; i < net->n_ops; i++)
    if (net->ops[i].out >= 0) net->ops[n++] = net->ops[i];
  net->n_ops = n;
}

/* Sums once all norms are where they can be, activations once all sums are: they then find the products behind them. */
void nn_fold(nn_net *net, const nn_target *target, const uint8_t *keep, int frozen) {
  if (target->enlarges) without(net, target, keep, NN_FOLDS_ENLARGING);
  if (!frozen) return;
  without(net, target, keep, NN_FOLDS_NORM);
  without(net, target, keep, NN_FOLDS_SUM);
  without(net, target, keep, NN_FOLDS_ACT);
}

nn_channels nn_channels_of(const nn_low *low, const nn_xop *op) {
  const nn_op *d = &op->d;
  const sp_spec *w = &low->net.weights[d->w].spec;
  int64_t all = (int64_t)(nn_weight_bytes(low, d->w) / sizeof(float)), out = low->vals[op->out].c, in;
  if (d->kind != NN_CONVT) return (nn_channels){all / out, out, all};
  in = low->vals[op->in].c;
  if (w->order == SP_ORDER4(2, 3, 1, 0)) return (nn_channels){in, out, all};
  return (nn_channels){w->order == SP_CHANNELS_LAST ? 1 : (int64_t)d->k[0] * d->k[1], out / d->groups, all / d->groups};
}
