/* SPDX-License-Identifier: MIT
 * rows.h - calls of a lane in a row, done again on the data of the last steps and timed: alone,
 * or beside other lanes'. */
#ifndef SP_CORE_ROWS_H
#define SP_CORE_ROWS_H

#include "run/costs.h"
#include "run/loop.h"

#define SP_ROWS_SOON 0.1 /* seconds that any of them may take, for want of which a disturbed one would count */

typedef struct sp_row {
  sp_loop *l;
  size_t lane;
  const sp_place *place;
  void *stream;
  const sp_task **task;
  uint64_t *step;
  size_t n;
  void *graph;    /* of all of them, NULL: they are made one by one */
  int runs, done; /* beside others: how often it is run in all, and so far */
} sp_row;

/* The step for the first lanes to be at, so that batches are full; `last`: that all lanes have done. */
uint64_t sp_row_full_step(const sp_loop *l, uint64_t last);
/* All calls and copies of a lane, or one. */
int sp_row_open(sp_row *r, sp_loop *l, size_t lane, const sp_task *only, uint64_t newest, sp_err *err);
/* As a graph, where its device can. */
void sp_row_record(sp_row *r);
void sp_row_close(sp_row *r);

int sp_row_time(const sp_row *r, double budget, sp_cost *cost, sp_err *err);
/* Of a row that was timed as a graph: what the host does where its calls are made by themselves. */
int sp_row_time_submit(sp_row *r, double budget, sp_cost *cost, sp_err *err);
double sp_row_seconds(const sp_costs *c, const sp_row *r); /* by what is known of its calls */

/* Leaves of two lanes what they may do at the same time; the longer one gives way. */
void sp_rows_keep_apart(sp_row *a, sp_row *b, const sp_costs *c);
/* How much longer than the longest of them all take together: 1, not at all;
 * and the sum of the others over the longest. */
int sp_rows_time(sp_row *rows, size_t n, const sp_costs *c, double budget, double *times, double *others, sp_err *err);

#endif
