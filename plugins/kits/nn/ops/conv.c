/* SPDX-License-Identifier: MIT
 * conv.c - convolutions, and transposed ones. */
#include "row.h"

#include <stdio.h>

static const char *dilated(const nn_op *op, int i, char *buf) {
  if (op->dil[i] > 1) snprintf(buf, 32, " of dilation %d", op->dil[i]);
  return buf;
}

/* What it makes of `from` rows or (i 1) columns. */
static int extent(const nn_making *m, const nn_op *op, int i, int64_t from, int64_t *to) {
  const char *axis = i ? "wide" : "high";
  int64_t under = (int64_t)op->dil[i] * (op->k[i] - 1) + 1;
  if (op->kind == NN_CONVT) {
    if (op->op[i] && op->op[i] >= op->s[i])
      return m->ctx->host->fail(m->ctx, SP_E_INVALID, "%s (%s): out_pad %d must be below the stride %d", m->place,
                                m->type, op->op[i], op->s[i]);
    *to = (from - 1) * op->s[i] - 2 * op->p[i] + under + op->op[i];
    if (*to >= 1) return SP_OK;
    return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (%s): pad %d leaves nothing of a map %lld %s", m->place, m->type,
                              op->p[i], (long long)from, axis);
  }
  if (under > from + 2 * op->p[i])
    return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (%s): kernel %d%s is larger than the map, %lld %s with pad %d",
                              m->place, m->type, op->k[i], dilated(op, i, (char[32]){0}), (long long)from, axis,
                              op->p[i]);
  *to = (from + 2 * op->p[i] - under) / op->s[i] + 1;
  return SP_OK;
}

static int size(const nn_making *m, nn_op *op, const nn_value *in, int64_t out, int64_t hw[2]) {
  int status = SP_OK;
  for (int i = 0; i < 2 && !status; i++) {
    if (!op->dil[i] || op->k[i] == 1) op->dil[i] = 1;
    status = extent(m, op, i, i ? in->w : in->h, &hw[i]);
  }
  if (status || (status = nn_check_size(m, out, hw[0], hw[1]))) return status;
  if (in->c / op->groups * out > (INT64_C(1) << 34) / (op->k[0] * op->k[1]))
    return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (%s): %lld x %lld channels of %d x %d make too many weights",
                              m->place, m->type, (long long)in->c, (long long)out, op->k[0], op->k[1]);
  return SP_OK;
}

int nn_add_conv(sp_ctx *ctx, nn_net *net, int in, const nn_op *proto, int64_t out, const char *name,
                const char *place) {
  nn_value v = net->values[in];
  nn_op op = *proto;
  nn_making m = {
      .ctx = ctx, .net = net, .in = &in, .n = 1, .name = name, .place = place, .type = nn_kind_name(op.kind)};
  int transposed = op.kind == NN_CONVT, status;
  int64_t hw[2];
  if (!op.groups) op.groups = 1;
  if ((status = nn_need_map(&m)) || (status = nn_check_groups(&m, op.groups, v.c, out)) ||
      (status = size(&m, &op, &v, out, hw)))
    return status;
  int64_t from = transposed ? v.c : out, to = (transposed ? out : v.c) / op.groups;
  op.in = in;
  op.w = net->n_weights;
  status = nn_add_uniform(&m, &op, 4, (int64_t[]){from, to, op.k[0], op.k[1]}, out, (double)(to * op.k[0] * op.k[1]));
  return status ? status : nn_add_op(ctx, net, &op, (nn_value){out, hw[0], hw[1], 0});
}

static int add(const nn_making *m, nn_op op, int kernel, int stride) {
  const nn_layer *l = m->l;
  op.bias = l->bias;
  op.groups = (int)l->groups;
  nn_two(&l->kernel, kernel, op.k);
  nn_two(&l->stride, stride, op.s);
  nn_two(&l->pad, 0, op.p);
  nn_two(&l->out_pad, 0, op.op);
  nn_two(&l->dilation, 1, op.dil);
  return nn_add_conv(m->ctx, m->net, m->in[0], &op, l->out, m->name, m->place);
}

static int conv(const nn_making *m) { return add(m, (nn_op){.kind = NN_CONV}, 3, 1); }
static int transposed(const nn_making *m) { return add(m, (nn_op){.kind = NN_CONVT}, 2, 2); }

#define FIELDS "out kernel stride pad dilation groups bias"

const nn_row nn_row_conv = {.fields = FIELDS, .out = "CHANNELS", .build = conv, .is = NN_PRODUCT | NN_TAKES_RELU};

const nn_row nn_row_conv_transpose = {
    .fields = FIELDS " out_pad", .out = "CHANNELS", .build = transposed, .is = NN_PRODUCT | NN_TAKES_RELU};
