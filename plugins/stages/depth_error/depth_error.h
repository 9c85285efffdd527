/* SPDX-License-Identifier: MIT
 * depth_error.h - exact sums of relative and logarithmic differences, such as depths are judged by: for every device.
 * Sums lie in the limbs of deviation.h. Needs -ffp-contract=off. */
#ifndef DEPTH_ERROR_H
#define DEPTH_ERROR_H

#include "../deviation/deviation.h"

#define DEPTH_ERROR_DOC \
  "Exact sums of relative and logarithmic differences, for AbsRel, SqRel, RMSE log, SILog and delta"

/* Rows of a column: counts, and sums over x (input) and y (target) of |x - y| / y, (x - y)^2 / y, g and g^2, where g is
 * log x - log y. */
enum { DEPTH_COUNTS, DEPTH_ABS, DEPTH_SQUARE, DEPTH_LOG, DEPTH_LOG_SQUARE, DEPTH_ROWS };
/* Counts: pairs that are summed, inputs that are not finite, targets below `least`, inputs below `least`, pairs of
 * which the larger one is less than 1.25, 1.25^2 and 1.25^3 times the other. */
enum { DEPTH_N, DEPTH_NOT_FINITE, DEPTH_LOW_TARGETS, DEPTH_LOW_INPUTS, DEPTH_DELTA, DEPTH_DELTAS = 3 };
enum { DEPTH_CELLS = DEPTH_ROWS * DEV_LIMBS };

#define DEPTH_MOST 1e36 /* whose square the limbs hold, divided by the least `least` */

typedef struct depth_params {
  double least, scale, offset;
} depth_params;

extern const sp_port depth_outputs[];
extern const sp_param depth_param_table[];

/* Never fused, on a GPU either. */
DEV_FN double depth_mul(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

DEV_FN double depth_add(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

/* log of a positive normal number within 2e-16 of max(1, |log|), with the same bits everywhere: v is 2^k m with m from
 * sqrt(1/2) to sqrt(2), and log m is 2 (s + s^3/3 + s^5/5 ...) of s = (m - 1) / (m + 1), which is at most 0.1716. */
DEV_FN double depth_log(double v) {
  uint64_t bits, one = 0x3ff0000000000000u;
  double m, k, s, z, q = 0;
  memcpy(&bits, &v, 8);
  int power = (int)(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | one;
  memcpy(&m, &bits, 8);
  if (m > 1.4142135623730951) m = depth_mul(m, 0.5), power++;
  k = (double)power;
  s = (m - 1) / (m + 1);
  z = depth_mul(s, s);
  for (int n = 21; n >= 3; n -= 2) q = depth_mul(depth_add(q, 1.0 / n), z);
  q = depth_add(depth_mul(k, 1.90821492927058770002e-10), depth_mul(depth_mul(2, s), q));
  return depth_add(depth_mul(k, 6.93147180369123816490e-01), depth_add(depth_mul(2, s), q));
}

typedef struct depth_pair {
  int counts;      /* 1: it is summed; 0: it has no target; -1: it is left out and counted as `which` */
  int which;       /* DEPTH_NOT_FINITE, DEPTH_LOW_TARGETS */
  int low, deltas; /* the input was below `least`; how many of the three bounds hold */
  double values[DEPTH_ROWS - 1];
} depth_pair;

DEV_FN depth_pair depth_values(const depth_params *p, float input, float target) {
  depth_pair r = {0, 0, 0, 0, {0, 0, 0, 0}};
  if (target != target) return r;
  double y = depth_add(depth_mul((double)target, p->scale), p->offset);
  double x = depth_add(depth_mul((double)input, p->scale), p->offset), bound = 1.25;
  r.counts = -1;
  r.which = DEPTH_LOW_TARGETS;
  if (y < p->least) return r;
  r.which = DEPTH_NOT_FINITE;
  if (!(x - x == 0) || !(y - y == 0) || x > DEPTH_MOST || y > DEPTH_MOST) return r;
  r.counts = 1;
  r.low = x < p->least;
  if (r.low) x = p->least;
  double d = x - y, g = depth_add(depth_log(x), -depth_log(y)), ratio = x > y ? x / y : y / x;
  r.values[0] = (d < 0 ? -d : d) / y;
  r.values[1] = depth_mul(d, d) / y;
  r.values[2] = g;
  r.values[3] = depth_mul(g, g);
  for (int k = 0; k < DEPTH_DELTAS; k++, bound = depth_mul(bound, 1.25)) r.deltas += ratio < bound;
  return r;
}

int depth_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */

/* What the stage is on every device. */
#define DEPTH_ERROR_PAIR                                                                                           \
  SP_STAGE_PAIR(depth_error, SP_STAGE_REENTRANT, "Errors of depths", .doc = DEPTH_ERROR_DOC, .inputs = dev_inputs, \
                .outputs = depth_outputs, .params = depth_param_table, .params_size = sizeof(depth_params),        \
                .create = stateless_create, .destroy = stateless_destroy)

#endif
