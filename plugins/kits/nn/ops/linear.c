/* SPDX-License-Identifier: MIT
 * linear.c - a product with a matrix of weights. */
#include "row.h"

static int build(const nn_making *m) {
  const nn_layer *l = m->l;
  nn_value v = m->net->values[m->in[0]];
  int64_t shape[2] = {l->out, v.c};
  nn_op op = {.kind = NN_LINEAR, .in = m->in[0], .w = m->net->n_weights, .bias = l->bias};
  int status;
  if (!v.flat)
    return m->ctx->host->fail(m->ctx, SP_E_SHAPE,
                              "%s (linear): needs an N x C input, got N x %lld x %lld x %lld; put "
                              "{ \"flatten\" } before it",
                              m->place, (long long)v.c, (long long)v.h, (long long)v.w);
  if (v.c > (INT64_C(1) << 34) / l->out)
    return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (linear): %lld x %lld features make too many weights", m->place,
                              (long long)v.c, (long long)l->out);
  if ((status = nn_add_uniform(m, &op, 2, shape, l->out, (double)v.c))) return status;
  return nn_add_op(m->ctx, m->net, &op, (nn_value){l->out, 1, 1, 1});
}

const nn_row nn_row_linear = {
    .fields = "out bias", .out = "CHANNELS", .build = build, .is = NN_PRODUCT | NN_TAKES_RELU};
