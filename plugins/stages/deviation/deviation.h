/* SPDX-License-Identifier: MIT
 * deviation.h - exact sums of differences between numbers: ports and checks, for every device.
 *
 * A sum lies in limbs, whole numbers of which each counts 2^24 times the one before, the first 2^-312. A double adds
 * each of its 53 bits where it belongs, so a sum is exact and the same in any order: what is rounded is d, its square
 * and that of the target, once each, to double. A limb holds the sum of 2^39 numbers. */
#ifndef DEVIATION_H
#define DEVIATION_H

#include <spcore/plugin.h>
#include <string.h>

#include "../../kits/pair.h"

#ifdef __CUDACC__
#define DEV_FN static __host__ __device__ __forceinline__
#else
#define DEV_FN static inline
#endif

#define DEVIATION_DOC "Exact sums of differences of numbers, for MAE, RMSE, bias and R2"

enum { DEV_IN_INPUT, DEV_IN_TARGET };
/* Rows of a column: how many counted and how many were not finite; sums over d = input - target and y = target. */
enum { DEV_COUNTS, DEV_ABS, DEV_PLAIN, DEV_SQUARE, DEV_TARGET, DEV_TARGET_SQUARE, DEV_ROWS };
enum { DEV_LIMBS = 24, DEV_BITS = 24, DEV_FIRST = -312, DEV_CELLS = DEV_ROWS * DEV_LIMBS };

extern const sp_port dev_inputs[], dev_outputs[];

/* How the tensors lie: `n` samples of `px` positions with `columns` numbers each. */
typedef struct dev_shape {
  int64_t n, px, columns;
  int x_rows, y_rows; /* the numbers of a position lie side by side */
} dev_shape;

DEV_FN int64_t dev_at(const dev_shape *s, int rows, int64_t position, int64_t c) {
  if (rows) return position * s->columns + c;
  return (position / s->px * s->columns + c) * s->px + position % s->px;
}

/* What a double adds to which limbs. */
typedef struct dev_parts {
  int first;       /* limb */
  int64_t part[4]; /* to it and those behind */
} dev_parts;

DEV_FN dev_parts dev_split(double v) {
  dev_parts s = {0, {0, 0, 0, 0}};
  uint64_t bits, mantissa;
  memcpy(&bits, &v, 8);
  int exponent = (int)(bits >> 52 & 0x7ff);
  if (!exponent) return s; /* 0: no double here is as small as to be subnormal */
  mantissa = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  int at = exponent - 1075 - DEV_FIRST, off;
  if (at < 0) return s;
  s.first = at / DEV_BITS;
  off = at % DEV_BITS;
  s.part[0] = (int64_t)(mantissa << off & 0xffffff);
  s.part[1] = (int64_t)(mantissa >> (DEV_BITS - off) & 0xffffff);
  s.part[2] = (int64_t)(mantissa >> (2 * DEV_BITS - off) & 0xffffff);
  s.part[3] = off > 19 ? (int64_t)(mantissa >> (3 * DEV_BITS - off)) : 0;
  if (bits >> 63)
    for (int k = 0; k < 4; k++) s.part[k] = -s.part[k];
  return s;
}

/* Of a pair what the rows get, DEV_ABS first. Whether it counts (1), has a NaN as target (0), or is not finite (-1). */
DEV_FN int dev_values(float x, float y, double *values) {
  if (y != y) return 0;
  if (!(x - x == 0) || !(y - y == 0)) return -1;
  double d = (double)x - (double)y, target = (double)y;
  values[0] = d < 0 ? -d : d;
  values[1] = d;
  values[2] = d * d;
  values[3] = target;
  values[4] = target * target;
  return 1;
}

int dev_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */
void dev_shape_of(dev_shape *s, const sp_spec *x, const sp_spec *y);

/* What the stage is on every device. */
#define DEVIATION_PAIR                                                                                            \
  SP_STAGE_PAIR(deviation, SP_STAGE_REENTRANT, "Sums of differences", .doc = DEVIATION_DOC, .inputs = dev_inputs, \
                .outputs = dev_outputs, .create = stateless_create, .destroy = stateless_destroy)

#endif
