/* SPDX-License-Identifier: MIT
 * norm.c - batch norm and group norm. */
#include "row.h"

int nn_add_batch_norm(sp_ctx *ctx, nn_net *net, int in, double eps, double momentum, const char *name) {
  nn_value v = net->values[in];
  nn_op op = {.kind = NN_BATCH_NORM, .in = in, .w = net->n_weights, .eps = eps, .momentum = momentum};
  sp_weight count = {.flags = SP_WEIGHT_STATE, .init = SP_INIT_CONST};
  int status;
  count.spec.dtype = SP_I64;
  if ((status = nn_add_affine(ctx, net, name, v.c)) ||
      (status = nn_add_param(ctx, net, name, "running_mean", 1, &v.c, SP_WEIGHT_STATE, SP_INIT_CONST, 0)) ||
      (status = nn_add_param(ctx, net, name, "running_var", 1, &v.c, SP_WEIGHT_STATE, SP_INIT_CONST, 1)) ||
      (status = nn_add_weight(ctx, net, name, "num_batches_tracked", &count)))
    return status;
  return nn_add_op(ctx, net, &op, v);
}

void nn_keep_statistics(nn_net *net) {
  enum { RUNNING_MEAN = 2, COUNT = 4 };
  for (int i = 0; i < net->n_ops; i++) {
    nn_op *op = &net->ops[i];
    if (op->kind != NN_BATCH_NORM) continue;
    op->keeps = 1;
    for (int k = RUNNING_MEAN; k <= COUNT; k++) net->weights[op->w + k].flags &= ~(uint32_t)SP_WEIGHT_STATE;
  }
}

static int batch_norm(const nn_making *m) {
  int64_t c = m->net->values[m->in[0]].c;
  if (m->l->out && m->l->out != c)
    return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (batch_norm): made for %lld channels, the input has %lld",
                              m->place, (long long)m->l->out, (long long)c);
  return nn_add_batch_norm(m->ctx, m->net, m->in[0], m->l->eps, m->l->momentum, m->name);
}

static int group_norm(const nn_making *m) {
  int64_t groups = m->l->out;
  nn_value v = m->net->values[m->in[0]];
  nn_op op = {.kind = NN_GROUP_NORM,
              .in = m->in[0],
              .w = m->net->n_weights,
              .bias = 1,
              .groups = (int)groups,
              .eps = m->l->eps};
  int status = nn_check_groups(m, groups, v.c, v.c);
  if (status || (status = nn_add_affine(m->ctx, m->net, m->name, v.c))) return status;
  return nn_add_op(m->ctx, m->net, &op, v);
}

static int64_t of_channels(const nn_op *op, int64_t batch, int64_t channels) {
  (void)op;
  (void)batch;
  return channels;
}

static int64_t of_groups(const nn_op *op, int64_t batch, int64_t channels) {
  (void)channels;
  return batch * op->groups;
}

const nn_row nn_row_batch_norm = {.fields = "out eps momentum",
                                  .build = batch_norm,
                                  .is = NN_AFFINE | NN_TAKES_RELU | NN_PIXELWISE,
                                  .exec = NN_X_NORM,
                                  .folds = NN_FOLDS_NORM,
                                  .stats = of_channels};

const nn_row nn_row_group_norm = {.fields = "out eps",
                                  .out = "GROUPS",
                                  .build = group_norm,
                                  .is = NN_AFFINE | NN_TAKES_RELU | NN_PIXELWISE,
                                  .exec = NN_X_GROUP,
                                  .stats = of_groups};
