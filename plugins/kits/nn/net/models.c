/* SPDX-License-Identifier: MIT
 * models.c - networks that stages make themselves, of layers that no script lists. */
#include "net_impl.h"

#include <stdio.h>

int nn_add_convs(sp_ctx *ctx, nn_net *net, int in, int64_t out, int count, const char *prefix) {
  nn_op c3 = {.kind = NN_CONV, .k = {3, 3}, .s = {1, 1}, .p = {1, 1}};
  for (int i = 0; i < count && in >= 0; i++) {
    char name[NN_MAX_NAME];
    snprintf(name, sizeof name, "%s.%d", prefix, 3 * i);
    in = nn_add_conv(ctx, net, in, &c3, out, name, prefix);
    snprintf(name, sizeof name, "%s.%d", prefix, 3 * i + 1);
    if (in >= 0) in = nn_add_batch_norm(ctx, net, in, 1e-5, 0.1, name);
    if (in >= 0) in = nn_add_relu(ctx, net, in);
  }
  return in;
}

int nn_halvings(sp_ctx *ctx, const nn_net *net, int in, int64_t levels) {
  const nn_value *v = &net->values[in];
  int64_t side = v->h < v->w ? v->h : v->w;
  int d = (int)levels;
  if (!d)
    while (side >> (d + 1)) d++;
  if (v->h % ((int64_t)1 << d) || v->w % ((int64_t)1 << d))
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "an image of %lld x %lld cannot be halved %d times; choose a size that "
                           "is a multiple of %lld, or other `levels`",
                           (long long)v->h, (long long)v->w, d, (long long)1 << d);
  return d;
}

int nn_add_plain(sp_ctx *ctx, nn_net *net, int in, int64_t width, int halvings) {
  static const int64_t one = 1, two = 2;
  nn_layer c = {.type = NN_CONV, .bias = 1, .out = width, .kernel = {&one, 1, 0}, .stride = {&one, 1, 0}};
  int v = in;
  for (int i = 0; i <= halvings && v >= 0; i++) {
    char name[16], place[32];
    snprintf(name, sizeof name, "%d", 2 * i);
    snprintf(place, sizeof place, "layer %d", 2 * i + 1);
    if (i) c.kernel.v = c.stride.v = &two;
    v = nn_add_layer(ctx, net, v, &c, name, place);
    if (v >= 0 && i < halvings) v = nn_add_relu(ctx, net, v);
    c.out *= 2;
  }
  return v;
}
