/* SPDX-License-Identifier: MIT
 * depth_error.h - sums of relative and logarithmic differences, such as depths are judged by, for every device. */
#ifndef DEPTH_ERROR_H
#define DEPTH_ERROR_H

#include "../../kits/limbs/limbs.h"
#include "../../kits/pair.h"
#include "../../kits/rounded.h"

#define DEPTH_ERROR_DOC \
  "Exact sums of relative and logarithmic differences, for AbsRel, SqRel, RMSE log, SILog and delta"

/* Rows of a column: counts, and sums over x (input) and y (target) of |x - y| / y, (x - y)^2 / y, g and g^2, where g is
 * log x - log y. */
enum { DEPTH_COUNTS, DEPTH_ABS, DEPTH_SQUARE, DEPTH_LOG, DEPTH_LOG_SQUARE, DEPTH_ROWS };
/* Counts: pairs that are summed, inputs that are not finite, targets below `least`, inputs below `least`, pairs of
 * which the larger one is less than 1.25, 1.25^2 and 1.25^3 times the other. */
enum { DEPTH_N, DEPTH_NOT_FINITE, DEPTH_LOW_TARGETS, DEPTH_LOW_INPUTS, DEPTH_DELTA, DEPTH_DELTAS = 3 };

#define DEPTH_MOST 1e36 /* whose square the limbs hold, divided by the least `least` */

typedef struct depth_params {
  double least, scale, offset;
} depth_params;

extern const sp_port depth_outputs[];
extern const sp_param depth_param_table[];

/* log of a positive normal number within 2e-16 of max(1, |log|), with the same bits everywhere: v is 2^k m with m from
 * sqrt(1/2) to sqrt(2), and log m is 2 (s + s^3/3 + s^5/5 ...) of s = (m - 1) / (m + 1), which is at most 0.1716. */
LIMB_FN double depth_log(double v) {
  uint64_t bits, one = 0x3ff0000000000000u;
  double m, k, s, z, q = 0;
  memcpy(&bits, &v, 8);
  int power = (int)(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | one;
  memcpy(&m, &bits, 8);
  if (m > 1.4142135623730951) m = rounded_mul(m, 0.5), power++;
  k = (double)power;
  s = (m - 1) / (m + 1);
  z = rounded_mul(s, s);
  for (int n = 21; n >= 3; n -= 2) q = rounded_mul(rounded_add(q, 1.0 / n), z);
  q = rounded_add(rounded_mul(k, 1.90821492927058770002e-10), rounded_mul(rounded_mul(2, s), q));
  return rounded_add(rounded_mul(k, 6.93147180369123816490e-01), rounded_add(rounded_mul(2, s), q));
}

/* What the stage sums. */
LIMB_FN void depth_sums(double x, double y, limb_cell *table) {
  double d = x - y, g = rounded_add(depth_log(x), -depth_log(y)), ratio = x > y ? x / y : y / x, bound = 1.25;
  for (int k = 0; k < DEPTH_DELTAS; k++, bound = rounded_mul(bound, 1.25))
    limb_count(table + DEPTH_DELTA + k, ratio < bound);
  limb_add(table + DEPTH_ABS * LIMBS, (d < 0 ? -d : d) / y);
  limb_add(table + DEPTH_SQUARE * LIMBS, rounded_mul(d, d) / y);
  limb_add(table + DEPTH_LOG * LIMBS, g);
  limb_add(table + DEPTH_LOG_SQUARE * LIMBS, rounded_mul(g, g));
}

LIMB_FN void depth_add(const void *params, float input, float target, limb_cell *table) {
  const depth_params *p = (const depth_params *)params;
  if (target != target) return;
  double y = rounded_add(rounded_mul((double)target, p->scale), p->offset);
  double x = rounded_add(rounded_mul((double)input, p->scale), p->offset);
  int low = x < p->least, known = x - x == 0 && y - y == 0 && x <= DEPTH_MOST && y <= DEPTH_MOST;
  int which = y < p->least ? DEPTH_LOW_TARGETS : known ? DEPTH_N : DEPTH_NOT_FINITE;
  limb_count(table + which, 1);
  if (which != DEPTH_N) return;
  limb_count(table + DEPTH_LOW_INPUTS, low);
  depth_sums(low ? p->least : x, y, table);
}

/* What the stage is on every device. */
#define DEPTH_ERROR_PAIR                                                                                            \
  SP_STAGE_PAIR(depth_error, SP_STAGE_REENTRANT, "Errors of depths", .doc = DEPTH_ERROR_DOC, .inputs = limb_inputs, \
                .outputs = depth_outputs, .params = depth_param_table, .params_size = sizeof(depth_params),         \
                .create = stateless_create, .destroy = stateless_destroy)

#endif
