/* SPDX-License-Identifier: MIT
 * limbs.h - exact sums over pairs of an input and its target, for every device: of each column a table, whose first row
 * counts and whose others are sums.
 *
 * A sum lies in limbs, whole numbers of which each counts 2^24 times the one before, the first 2^-312. A double adds
 * each of its 53 bits where it belongs, so a sum is exact and the same in any order. A limb holds the sum of 2^39
 * numbers. */
#ifndef SP_PLUGINS_LIMBS_H
#define SP_PLUGINS_LIMBS_H

#include <string.h>

#include "../labels/labels.h"
#ifdef __cplusplus
#include "../cuda/launch.h"
#endif

enum { LIMBS = 24, LIMB_BITS = 24, LIMB_FIRST = -312 };

enum { LIMB_IN_INPUT, LIMB_IN_TARGET };
extern const sp_port limb_inputs[];

/* A call's tensors and tables. Columns are the classes of the shape. */
typedef struct limb_job {
  logit_shape s;
  int y_rows; /* the targets of a position lie side by side */
  const float *x, *y;
  int64_t *tables; /* [columns][rows][LIMBS] */
} limb_job;

/* Checks the inputs, and plans the tables of so many rows: all but the scratch. */
int limb_plan(sp_ctx *ctx, sp_plan *plan, int rows);
void limb_job_of(limb_job *j, const sp_io *io);

/* A cell of a table that is being made; a kernel's lies in its block's shared memory, and threads add in any order. */
#ifdef __cplusplus
#define LIMB_FN static __device__ __forceinline__
typedef unsigned long long limb_cell;
LIMB_FN void limb_count(limb_cell *cell, int64_t n) {
  if (n) atomicAdd(cell, (unsigned long long)n);
}
#else
#define LIMB_FN static inline __attribute__((always_inline))
typedef int64_t limb_cell;
LIMB_FN void limb_count(limb_cell *cell, int64_t n) { *cell += n; }
#endif

/* What a stage sums: adds a pair to its column's table. `params` are the stage's. */
typedef void limb_pair(const void *params, float x, float y, limb_cell *table);

/* Adds v, which is finite and not subnormal, to a row. */
LIMB_FN void limb_add(limb_cell *row, double v) {
  uint64_t bits, mantissa;
  memcpy(&bits, &v, 8);
  int exponent = (int)(bits >> 52 & 0x7ff), at = exponent - 1075 - LIMB_FIRST, first = at / LIMB_BITS,
      off = at % LIMB_BITS;
  if (!exponent || at < 0) return;
  mantissa = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  int64_t part[4] = {(int64_t)(mantissa << off & 0xffffff), (int64_t)(mantissa >> (LIMB_BITS - off) & 0xffffff),
                     (int64_t)(mantissa >> (2 * LIMB_BITS - off) & 0xffffff),
                     off > 19 ? (int64_t)(mantissa >> (3 * LIMB_BITS - off)) : 0};
  for (int k = 0; k < 4 && first + k < LIMBS; k++) limb_count(row + first + k, bits >> 63 ? -part[k] : part[k]);
}

#endif
