/* SPDX-License-Identifier: MIT
 * deviation.h - exact sums of differences between numbers, for every device: what is rounded is d, its square and that
 * of the target, once each, to double. */
#ifndef DEVIATION_H
#define DEVIATION_H

#include "../../kits/limbs/limbs.h"
#include "../../kits/pair.h"

#define DEVIATION_DOC "Exact sums of differences of numbers, for MAE, RMSE, bias and R2"

/* Rows of a column: counts; sums over d = input - target and y = target. */
enum { DEV_COUNTS, DEV_ABS, DEV_PLAIN, DEV_SQUARE, DEV_TARGET, DEV_TARGET_SQUARE, DEV_ROWS };
enum { DEV_N, DEV_NOT_FINITE }; /* counts: pairs that are summed, pairs that are not finite */

extern const sp_port dev_outputs[];

/* What the stage sums. */
LIMB_FN void dev_add(const void *params, float x, float y, limb_cell *table) {
  double d = (double)x - (double)y, target = (double)y;
  (void)params;
  if (y != y) return;
  if (!(x - x == 0) || !(y - y == 0)) {
    limb_count(table + DEV_NOT_FINITE, 1);
    return;
  }
  limb_count(table + DEV_N, 1);
  limb_add(table + DEV_ABS * LIMBS, d < 0 ? -d : d);
  limb_add(table + DEV_PLAIN * LIMBS, d);
  limb_add(table + DEV_SQUARE * LIMBS, d * d);
  limb_add(table + DEV_TARGET * LIMBS, target);
  limb_add(table + DEV_TARGET_SQUARE * LIMBS, target * target);
}

/* What the stage is on every device. */
#define DEVIATION_PAIR                                                                                             \
  SP_STAGE_PAIR(deviation, SP_STAGE_REENTRANT, "Sums of differences", .doc = DEVIATION_DOC, .inputs = limb_inputs, \
                .outputs = dev_outputs, .create = stateless_create, .destroy = stateless_destroy)

#endif
