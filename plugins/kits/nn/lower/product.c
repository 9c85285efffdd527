/* SPDX-License-Identifier: MIT
 * product.c - which kernel computes a convolution, its transpose or a linear layer,
 * and how it wants pixels and weights. */
#include "product.h"

static int is_plain(const nn_op *op) { return op->groups == 1 && op->dil[0] == 1 && op->dil[1] == 1; }

int nn_is_patch(const nn_net *net, const nn_op *op) {
  const nn_value *fine = &net->values[op->kind == NN_CONVT ? op->out : op->in];
  if ((op->kind != NN_CONV && op->kind != NN_CONVT) || !is_plain(op)) return 0;
  for (int i = 0; i < 2; i++)
    if (op->k[i] != 2 || op->s[i] != 2 || op->p[i] || op->op[i]) return 0;
  return fine->h % 2 == 0 && fine->w % 2 == 0;
}

static int is_point(const nn_op *op) { /* 1x1, stride 1 */
  if (op->kind == NN_LINEAR) return 1;
  if (!is_plain(op)) return 0;
  for (int i = 0; i < 2; i++)
    if (op->k[i] != 1 || op->s[i] != 1 || op->p[i] || op->op[i]) return 0;
  return 1;
}

/* More than one row for each sample? */
static int has_rows(const nn_net *net, const nn_op *d) {
  const nn_value *x = &net->values[d->in], *y = &net->values[d->out];
  return x->h * x->w > 1 && y->h * y->w > 1;
}

enum nn_exec nn_usual_exec(const nn_net *net, const nn_target *t, const nn_op *d) {
  int point = is_point(d), same = d->kind == NN_CONV && is_plain(d);
  for (int i = 0; i < 2; i++)
    if (d->k[i] != d->k[0] || d->s[i] != 1 || d->p[i] != (d->k[i] - 1) / 2 || d->k[i] % 2 == 0) same = 0;
  if (t->narrow && (same || point) && d->kind != NN_LINEAR &&
      t->narrow(d->k[0], net->values[d->in].c, net->values[d->out].c))
    return NN_X_NARROW;
  return point || nn_is_patch(net, d) ? NN_X_GEMM : NN_X_CONV;
}

enum nn_exec nn_product_exec(const nn_net *net, const nn_target *t, const nn_op *d) {
  enum nn_exec x = nn_usual_exec(net, t, d);
  return x == NN_X_GEMM && t->apart && has_rows(net, d) ? NN_X_CONV : x;
}

int nn_product_wish(const nn_net *net, const nn_target *t, const nn_op *op, int d) {
  if (nn_product_exec(net, t, op) == NN_X_CONV) return 0;
  if (is_point(op)) return d;
  return op->kind == NN_CONV && nn_is_patch(net, op) && d < NN_MAX_DEPTH ? d + 1 : 0;
}

int nn_may_add(const nn_net *net, const nn_target *target, const nn_op *op) {
  return !nn_is_patch(net, op) && nn_product_exec(net, target, op) != NN_X_NARROW;
}

int nn_may_act(const nn_net *net, const nn_target *target, const nn_op *op) {
  return target->acts && op->kind == NN_CONV && nn_product_exec(net, target, op) == NN_X_CONV;
}

void nn_order_weight(nn_net *net, const nn_target *t, const nn_op *op) {
  enum nn_exec x = nn_usual_exec(net, t, op);
  if (op->kind == NN_LINEAR) return;
  if (x == NN_X_CONV) net->weights[op->w].spec.order = t->conv_last ? SP_CHANNELS_LAST : SP_ROW_MAJOR;
  else net->weights[op->w].spec.order = op->kind == NN_CONV ? SP_CHANNELS_LAST : SP_ORDER4(2, 3, 1, 0);
}
