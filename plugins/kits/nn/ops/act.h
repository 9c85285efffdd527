/* SPDX-License-Identifier: MIT
 * act.h - activations and their slopes, as PyTorch has them, for every device and in kernels. NaN stays. */
#ifndef NN_ACT_H
#define NN_ACT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "fn.h"
#include "kinds.h"

#ifdef __CUDACC__
NN_FN float nn_exp(float x) { return expf(x); }
#else
/* By arithmetic alone, since a compiler makes vectors of that, and calls a library for one number at a time: 2^n times
 * the powers of what is left, below ln(2) / 2, to the seventh. Off by 1e-7 of the result at most;
 * above 88.3 it is infinite. */
NN_FN float nn_exp(float x) {
  const float whole = 0x1.8p23f, high = 0x1.62e4p-1f, low = 0x1.7f7d1cp-20f; /* rounds to n; ln(2) in two parts */
  float n, r, power, sum;
  uint32_t bits;
  x = x < -87 ? -87 : x > 89 ? 89 : x;
  n = x * 0x1.715476p0f + whole;
  memcpy(&bits, &n, sizeof bits);
  bits = (bits << 23) + 0x3f800000;
  memcpy(&power, &bits, sizeof power);
  n -= whole;
  r = x - n * high - n * low;
  sum = 1.0f / 720 + r * (1.0f / 5040);
  sum = 1.0f / 24 + r * (1.0f / 120 + r * sum);
  sum = 0.5f + r * (1.0f / 6 + r * sum);
  return power * (1 + r * (1 + r * sum));
}
#endif

NN_FN float nn_sigmoid(float x) { return 1 / (1 + nn_exp(-x)); }
NN_FN float nn_to_six(float x) { return x < 0 ? 0 : x > 6 ? 6 : x; }

/* exp(-x^2 / 2); 0 from where it is below the smallest float that is not denormal. */
NN_FN float nn_bell(float x) { return x * x > 174 ? 0 : nn_exp(-0.5f * x * x); }

/* How much of a normal distribution is below x, from nn_bell(x): where that is small its ratio to the bell is a
 * polynomial of 1 / (1 + 0.21 |x|), fitted from 0 to 13.3 to 1.3e-8 of the ratio. So the tail has its digits,
 * which 1 + erf(x) has not. */
NN_FN float nn_below(float x, float bell) {
  float t = 1 / (1 + 0.21f * fabsf(x)), sum = 0.28622148f - t * 0.07218945f;
  sum = 0.35594753f + t * (-0.3358128f + t * sum);
  sum = 0.1269714f + t * (-0.09862118f + t * sum);
  sum = 0.08515483f + t * (0.06862212f + t * sum);
  sum = bell * t * (0.08370607f + t * sum);
  return x > 0 ? 1 - sum : sum;
}

/* gelu by tanh is x times this; 1 + tanh(u) = 2 sigmoid(2 u). */
NN_FN float nn_gelu_gate(float x) { return nn_sigmoid(1.5957691f * (x + 0.044715f * x * x * x)); }

/* k: the function's own number, of one that has any. */
NN_FN float nn_act(enum nn_act act, float k, float x) {
  switch (act) {
    case NN_ACT_NONE: break;
    case NN_ACT_SIGMOID: return nn_sigmoid(x);
    case NN_ACT_HARD_SIGMOID: return nn_to_six(x + 3) / 6;
    case NN_ACT_HARD_SWISH: return x * nn_to_six(x + 3) / 6;
    case NN_ACT_SILU: return x * nn_sigmoid(x);
    case NN_ACT_RELU6: return nn_to_six(x);
    case NN_ACT_LEAKY_RELU: return x > 0 ? x : x * k;
    case NN_ACT_GELU: return x * nn_below(x, nn_bell(x));
    case NN_ACT_GELU_TANH: return x * nn_gelu_gate(x);
  }
  return x;
}

/* The derivative at x. */
NN_FN float nn_slope(enum nn_act act, float k, float x) {
  float s;
  switch (act) {
    case NN_ACT_NONE: break;
    case NN_ACT_SIGMOID: s = nn_sigmoid(x); return s * (1 - s);
    case NN_ACT_HARD_SIGMOID: return x <= -3 ? 0 : x >= 3 ? 0 : 1.0f / 6;
    case NN_ACT_HARD_SWISH: return x < -3 ? 0 : x > 3 ? 1 : x / 3 + 0.5f;
    case NN_ACT_SILU: s = nn_sigmoid(x); return s * (1 + x * (1 - s));
    case NN_ACT_RELU6: return (float)((x > 0) & (x < 6));
    case NN_ACT_LEAKY_RELU: return x > 0 ? 1 : k;
    case NN_ACT_GELU: s = nn_bell(x); return nn_below(x, s) + x * (0.39894228f * s);
    case NN_ACT_GELU_TANH: s = nn_gelu_gate(x); return s + x * s * (1 - s) * (1.5957691f + 0.21406644f * x * x);
  }
  return 1;
}

#endif
