/* SPDX-License-Identifier: MIT
 * act.h - activations and their slopes, as PyTorch has them, for every device and in kernels. NaN stays. */
#ifndef NN_ACT_H
#define NN_ACT_H

#include <math.h>

#include "fn.h"

enum nn_act { NN_ACT_SIGMOID, NN_ACT_HARD_SIGMOID, NN_ACT_HARD_SWISH, NN_ACT_SILU };

NN_FN float nn_sigmoid(float x) { return 1 / (1 + expf(-x)); }
NN_FN float nn_to_six(float x) { return x < 0 ? 0 : x > 6 ? 6 : x; }

NN_FN float nn_act(int act, float x) {
  switch (act) {
    case NN_ACT_SIGMOID: return nn_sigmoid(x);
    case NN_ACT_HARD_SIGMOID: return nn_to_six(x + 3) / 6;
    case NN_ACT_HARD_SWISH: return x * nn_to_six(x + 3) / 6;
    default: return x * nn_sigmoid(x);
  }
}

/* The derivative at x. */
NN_FN float nn_slope(int act, float x) {
  float s;
  switch (act) {
    case NN_ACT_SIGMOID: s = nn_sigmoid(x); return s * (1 - s);
    case NN_ACT_HARD_SIGMOID: return x <= -3 || x >= 3 ? 0 : 1.0f / 6;
    case NN_ACT_HARD_SWISH: return x < -3 ? 0 : x > 3 ? 1 : x / 3 + 0.5f;
    default: s = nn_sigmoid(x); return s * (1 + x * (1 - s));
  }
}

#endif
