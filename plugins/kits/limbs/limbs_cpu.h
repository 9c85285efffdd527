/* SPDX-License-Identifier: MIT
 * limbs_cpu.h - exact sums over pairs on the CPU: a table for each chunk of a column, which are added in the end. */
#ifndef SP_PLUGINS_LIMBS_CPU_H
#define SP_PLUGINS_LIMBS_CPU_H

#include "limbs.h"

#define LIMB_CHUNK 16384 /* positions per work item, of one column */

typedef struct limb_run {
  limb_job job;
  const void *params;
  int64_t cells;   /* of a table */
  int64_t chunks;  /* of a column */
  int64_t *tables; /* [columns][chunks][cells] */
} limb_run;

/* limb_plan(), and the scratch. */
int limb_cpu_plan(sp_ctx *ctx, sp_plan *plan, int rows);

/* `chunk` is limb_chunk() with what the stage sums. */
int limb_cpu_forward(sp_ctx *ctx, const sp_io *io, const void *params,
                     int (*chunk)(void *arg, int64_t item, int worker));

LIMB_FN int limb_chunk(const limb_run *r, int64_t item, limb_pair *add) {
  const limb_job *j = &r->job;
  int64_t c = item / r->chunks, p = item % r->chunks * LIMB_CHUNK, all = j->s.n * j->s.px,
          end = all - p > LIMB_CHUNK ? p + LIMB_CHUNK : all;
  int64_t *table = r->tables + item * r->cells;
  memset(table, 0, (size_t)r->cells * sizeof *table);
  for (; p < end; p++)
    add(r->params, j->x[logit_index(&j->s, j->s.rows, p, c)], j->y[logit_index(&j->s, j->y_rows, p, c)], table);
  return SP_OK;
}

#endif
