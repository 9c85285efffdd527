/* SPDX-License-Identifier: MIT
 * net_impl.h - what layers are put together from. */
#ifndef NN_NET_IMPL_H
#define NN_NET_IMPL_H

#include "net.h"

#define NN_MAX_NAME 96

/* net.c */
int nn_add_value(sp_ctx *ctx, nn_net *net, nn_value v);
/* Appends op, which makes a value like `out`; returns that. */
int nn_add_op(sp_ctx *ctx, nn_net *net, nn_op *op, nn_value out);
int nn_add_weight(sp_ctx *ctx, nn_net *net, const char *prefix, const char *name, const sp_weight *w);
int nn_add_param(sp_ctx *ctx, nn_net *net, const char *prefix, const char *name, int ndim, const int64_t *shape,
                 uint32_t flags, int init, double value);

/* ops/conv.c: `proto` has what the layer says; `place` is as for nn_add_layer. */
int nn_add_conv(sp_ctx *ctx, nn_net *net, int in, const nn_op *proto, int64_t out, const char *name, const char *place);
/* ops/norm.c, ops/act.c */
int nn_add_batch_norm(sp_ctx *ctx, nn_net *net, int in, double eps, double momentum, const char *name);
int nn_add_relu(sp_ctx *ctx, nn_net *net, int in);

#endif
