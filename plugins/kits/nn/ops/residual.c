/* SPDX-License-Identifier: MIT
 * residual.c - a block of ops, as torchvision's BasicBlock: conv1, bn1, relu, conv2, bn2, plus the input or its
 * projection, relu. */
#include "row.h"

#include <stdio.h>
#include <string.h>

/* A convolution and its batch norm, which are called m->name.CONV and m->name.NORM. */
static int conv(const nn_making *m, int in, const nn_op *op, const char *conv_name, const char *norm_name) {
  char name[NN_MAX_NAME];
  int v;
  snprintf(name, sizeof name, "%s.%s", m->name, conv_name);
  if ((v = nn_add_conv(m->ctx, m->net, in, op, m->l->out, name, m->place)) < 0) return v;
  snprintf(name, sizeof name, "%s.%s", m->name, norm_name);
  return nn_add_batch_norm(m->ctx, m->net, v, m->l->eps, m->l->momentum, name);
}

static int build(const nn_making *m) {
  nn_op c3 = {.kind = NN_CONV, .k = {3, 3}, .s = {1, 1}, .p = {1, 1}}, c1 = {.kind = NN_CONV, .k = {1, 1}};
  int in = m->in[0], v, skip = in, status = nn_need_map(m);
  if (status) return status;
  nn_two(&m->l->stride, 1, c3.s);
  memcpy(c1.s, c3.s, sizeof c1.s);
  if ((v = conv(m, in, &c3, "conv1", "bn1")) < 0 || (v = nn_add_relu(m->ctx, m->net, v)) < 0) return v;
  c3.s[0] = c3.s[1] = 1;
  if ((v = conv(m, v, &c3, "conv2", "bn2")) < 0) return v;
  if (c1.s[0] != 1 || c1.s[1] != 1 || m->net->values[in].c != m->l->out)
    skip = conv(m, in, &c1, "downsample.0", "downsample.1");
  if (skip < 0) return skip;
  nn_making sum = {.ctx = m->ctx, .net = m->net, .in = (int[]){v, skip}, .n = 2};
  v = nn_add_simple(&sum, NN_ADD, m->net->values[v]);
  return v < 0 ? v : nn_add_relu(m->ctx, m->net, v);
}

const nn_row nn_row_residual = {
    .fields = "out stride eps momentum", .out = "CHANNELS", .holds = 1, .build = build, .exec = NN_X_COPY};
