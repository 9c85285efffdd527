/* SPDX-License-Identifier: MIT
 * fold.h - a batch norm of running statistics in the weights of the product before it,
 * for every device and in kernels. */
#ifndef NN_FOLD_H
#define NN_FOLD_H

#include <math.h>
#include <stdint.h>

#include "../ops/fn.h"

/* Element i of a weight is of output channel (i / inner) mod period + (i / block) * period. */
typedef struct nn_channels {
  int64_t inner, period, block;
} nn_channels;

NN_FN int64_t nn_channel(nn_channels c, int64_t i) { return i / c.inner % c.period + i / c.block * c.period; }

/* gamma (x - mean) / sqrt(var + eps) + beta = scale x + shift; in double, so that each weight is rounded once. */
NN_FN double nn_fold_scale(float gamma, float var, double eps) { return gamma / sqrt(var + eps); }

NN_FN float nn_fold_shift(double scale, float bias, float mean, float beta) {
  return (float)(((double)bias - mean) * scale + beta);
}

#endif
