/* SPDX-License-Identifier: MIT
 * product.h - what lowering asks of convolutions, their transposes and linear layers:
 * several kernels can compute them. */
#ifndef NN_PRODUCT_H
#define NN_PRODUCT_H

#include "lower.h"

/* Which one does. */
enum nn_exec nn_product_exec(const nn_net *net, const nn_target *t, const nn_op *d);
/* The one that decides on the order of its weight: the same for a stage that is planned as frozen and as trained. */
enum nn_exec nn_usual_exec(const nn_net *net, const nn_target *t, const nn_op *d);
/* 2x2, stride 2, nothing padded or left over */
int nn_is_patch(const nn_net *net, const nn_op *op);
/* The depth of Z order that it would like to read, for a result in depth d. */
int nn_product_wish(const nn_net *net, const nn_target *t, const nn_op *op, int d);
/* Orders its weight in memory. A product has w as [n][k]: k = kh,kw,in of a convolution, n = kh,kw,out of a transposed
 * one. */
void nn_order_weight(nn_net *net, const nn_target *t, const nn_op *op);

#endif
