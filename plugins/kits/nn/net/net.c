/* SPDX-License-Identifier: MIT
 * net.c - the list of ops of a network, its values and weights: appended, fused, described, freed. */
#include "../ops/row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int nomem(sp_ctx *ctx) { return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's layers"); }

static int grow(void *array, size_t *cap, size_t n, size_t size) {
  void **a = array;
  size_t c = *cap ? *cap * 2 : 16;
  void *p;
  if (n <= *cap) return 0;
  p = realloc(*a, c * size);
  if (!p) return -1;
  *a = p;
  *cap = c;
  return 0;
}

int nn_add_value(sp_ctx *ctx, nn_net *net, nn_value v) {
  if (grow(&net->values, &net->cap_values, (size_t)net->n_values + 1, sizeof *net->values)) return nomem(ctx);
  net->values[net->n_values] = v;
  return net->n_values++;
}

static int append(sp_ctx *ctx, nn_net *net, const nn_op *op) {
  if (grow(&net->ops, &net->cap_ops, (size_t)net->n_ops + 1, sizeof *net->ops)) return nomem(ctx);
  net->ops[net->n_ops++] = *op;
  return SP_OK;
}

int nn_add_op(sp_ctx *ctx, nn_net *net, nn_op *op, nn_value out) {
  int st;
  op->out = nn_add_value(ctx, net, out);
  if (op->out < 0) return op->out;
  st = append(ctx, net, op);
  return st ? st : op->out;
}

int nn_add_weight(sp_ctx *ctx, nn_net *net, const char *prefix, const char *name, const sp_weight *w) {
  size_t bytes = strlen(prefix) + strlen(name) + 2;
  char *s;
  if (grow(&net->weights, &net->cap_weights, (size_t)net->n_weights + 1, sizeof *net->weights) ||
      grow(&net->names, &net->cap_names, (size_t)net->n_weights + 1, sizeof *net->names))
    return nomem(ctx);
  s = malloc(bytes);
  if (!s) return nomem(ctx);
  snprintf(s, bytes, "%s.%s", prefix, name);
  net->names[net->n_weights] = s;
  net->weights[net->n_weights] = *w;
  net->weights[net->n_weights++].name = s;
  return SP_OK;
}

int nn_add_param(sp_ctx *ctx, nn_net *net, const char *prefix, const char *name, int ndim, const int64_t *shape,
                 uint32_t flags, int init, double value) {
  sp_weight w = {.flags = flags, .init = init, .init_value = value};
  w.spec.dtype = SP_F32;
  w.spec.ndim = ndim;
  for (int i = 0; i < ndim; i++) w.spec.shape[i] = shape[i];
  return nn_add_weight(ctx, net, prefix, name, &w);
}

int nn_input(sp_ctx *ctx, nn_net *net, const sp_spec *spec) {
  if (spec->ndim != 4 && spec->ndim != 2)
    return ctx->host->fail(ctx, SP_E_SHAPE, "expected N x C x H x W or N x C, got %d dimensions", (int)spec->ndim);
  for (int i = 1; i < spec->ndim; i++)
    if (spec->shape[i] < 1 || spec->shape[i] > NN_MAX_EXTENT)
      return ctx->host->fail(ctx, SP_E_SHAPE, "dimension %d of the input is %lld, expected 1 to %lld", i,
                             (long long)spec->shape[i], (long long)NN_MAX_EXTENT);
  if (spec->ndim == 2) return nn_add_value(ctx, net, (nn_value){spec->shape[1], 1, 1, 1});
  return nn_add_value(ctx, net, (nn_value){spec->shape[1], spec->shape[2], spec->shape[3], 0});
}

static int reads(const nn_op *op, int value) {
  int n = 0;
  for (int i = 0; i <= op->n_more; i++) n += NN_IN(op, i) == value;
  return n;
}

void nn_fuse(nn_net *net, const uint8_t *keep) {
  int n = 0;
  for (int i = 0; i < net->n_ops; i++) {
    nn_op *op = &net->ops[i];
    nn_op *prev = NULL;
    int uses = 0;
    for (int j = 0; j < n; j++)
      if (net->ops[j].out == op->in) prev = &net->ops[j];
    for (int j = 0; j < net->n_ops; j++)
      if (j >= i || j < n) uses += reads(&net->ops[j], op->in);
    if (op->kind == NN_RELU && prev && uses == 1 && !keep[op->in] && !prev->relu && nn_is(prev->kind, NN_TAKES_RELU)) {
      prev->relu = 1;
      prev->out = op->out;
      continue;
    }
    net->ops[n++] = *op;
  }
  net->n_ops = n;
}

void nn_spec(const nn_net *net, int v, int64_t n, sp_spec *spec) {
  const nn_value *x = &net->values[v];
  *spec = (sp_spec){.dtype = SP_F32, .ndim = x->flat ? 2 : 4, .shape = {n, x->c}};
  if (x->flat) return;
  spec->shape[2] = x->h;
  spec->shape[3] = x->w;
}

void nn_clear(nn_net *net) {
  for (int i = 0; i < net->n_weights; i++) free(net->names[i]);
  free(net->names);
  free(net->weights);
  free(net->ops);
  free(net->values);
  memset(net, 0, sizeof *net);
}
