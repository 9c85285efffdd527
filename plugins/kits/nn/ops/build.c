/* SPDX-License-Identifier: MIT
 * build.c - what the builders of layers share: checks, and the weights that many have. */
#include "row.h"

void nn_two(const sp_ints *v, int def, int dst[2]) {
  for (int i = 0; i < 2; i++) {
    int64_t x = v->n ? v->v[v->n == 2 ? i : 0] : 0;
    dst[i] = x ? (int)x : def;
  }
}

int nn_need_map(const nn_making *m) {
  const nn_value *v = &m->net->values[m->in[0]];
  if (!v->flat) return SP_OK;
  return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (%s): needs an N x C x H x W input, got N x %lld", m->place,
                            m->type, (long long)v->c);
}

int nn_check_size(const nn_making *m, int64_t c, int64_t h, int64_t w) {
  if (h <= NN_MAX_EXTENT && w <= NN_MAX_EXTENT && h * w <= INT64_C(1) << 32 && c * h * w <= INT64_C(1) << 36)
    return SP_OK;
  return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (%s): the result of %lld x %lld x %lld is too large", m->place,
                            m->type, (long long)c, (long long)h, (long long)w);
}

int nn_check_groups(const nn_making *m, int64_t groups, int64_t in, int64_t out) {
  if (in % groups == 0 && out % groups == 0) return SP_OK;
  return m->ctx->host->fail(m->ctx, SP_E_INVALID, "%s (%s): %lld groups do not divide its %lld %s channels", m->place,
                            m->type, (long long)groups, (long long)(in % groups ? in : out),
                            in % groups ? "input" : "output");
}

int nn_add_uniform(const nn_making *m, const nn_op *op, int ndim, const int64_t *shape, int64_t out, double fan_in) {
  int status = nn_add_param(m->ctx, m->net, m->name, "weight", ndim, shape, SP_WEIGHT_TRAINED, SP_INIT_UNIFORM, fan_in);
  if (status || !op->bias) return status;
  return nn_add_param(m->ctx, m->net, m->name, "bias", 1, &out, SP_WEIGHT_TRAINED, SP_INIT_UNIFORM, fan_in);
}

int nn_add_affine(sp_ctx *ctx, nn_net *net, const char *name, int64_t c) {
  int status = nn_add_param(ctx, net, name, "weight", 1, &c, SP_WEIGHT_TRAINED, SP_INIT_CONST, 1);
  return status ? status : nn_add_param(ctx, net, name, "bias", 1, &c, SP_WEIGHT_TRAINED, SP_INIT_CONST, 0);
}

int nn_add_simple(const nn_making *m, enum nn_kind kind, nn_value out) {
  nn_op op = {.kind = kind, .in = m->in[0], .n_more = m->n - 1, .w = -1};
  for (int i = 1; i < m->n; i++) op.more[i - 1] = m->in[i];
  return nn_add_op(m->ctx, m->net, &op, out);
}
