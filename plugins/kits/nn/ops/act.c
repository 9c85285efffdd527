/* SPDX-License-Identifier: MIT
 * act.c - functions of one number: ReLU, which other ops apply to their results as well, and those of act.h. */
#include "row.h"

int nn_add_relu(sp_ctx *ctx, nn_net *net, int in) {
  return nn_add_simple(&(nn_making){.ctx = ctx, .net = net, .in = &in, .n = 1}, NN_RELU, net->values[in]);
}

static int relu(const nn_making *m) { return nn_add_relu(m->ctx, m->net, m->in[0]); }

const nn_row nn_row_relu = {.build = relu, .is = NN_PIXELWISE, .exec = NN_X_RELU};

static int add(const nn_making *m, enum nn_kind kind, enum nn_act act, double k) {
  nn_op op = {.kind = kind, .in = m->in[0], .w = -1, .act = act, .act_k = (float)k};
  return nn_add_op(m->ctx, m->net, &op, m->net->values[op.in]);
}

#define NN_OP_ACT(ID, word, row, how)                                            \
  static int row(const nn_making *m) { return add(m, NN_##ID, NN_ACT_##ID, 0); } \
  const nn_row nn_row_##row = {.build = row, .is = NN_PIXELWISE, .exec = NN_X_ACT, .folds = how};
#include "ops.list"

static int leaky_relu(const nn_making *m) { return add(m, NN_LEAKY_RELU, NN_ACT_LEAKY_RELU, m->l->negative_slope); }

const nn_row nn_row_leaky_relu = {
    .fields = "negative_slope", .build = leaky_relu, .is = NN_PIXELWISE, .exec = NN_X_ACT};

static int gelu(const nn_making *m) {
  return add(m, NN_GELU, m->l->approximate == NN_TANH ? NN_ACT_GELU_TANH : NN_ACT_GELU, 0);
}

const nn_row nn_row_gelu = {.fields = "approximate", .build = gelu, .is = NN_PIXELWISE, .exec = NN_X_ACT};
