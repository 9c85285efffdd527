/* SPDX-License-Identifier: MIT
 * sched_random.h - random but legal inputs of the scheduler, the same for the same seed. */
#ifndef SP_TESTS_SCHED_RANDOM_H
#define SP_TESTS_SCHED_RANDOM_H

#include "schedule/schedule.h"

enum { RS_LANES = 8, RS_TASKS = 96, RS_RESOURCES = 320, RS_ACCESSES = 1024 };

typedef struct rs {
  sp_sched_input in;
  sp_sched_lane lane[RS_LANES];
  sp_sched_task task[RS_TASKS];
  sp_sched_resource res[RS_RESOURCES];
  sp_sched_access acc[RS_ACCESSES];
  char name[RS_TASKS + RS_RESOURCES + RS_LANES][24];
  size_t n_acc, n_names;
  uint64_t state;
} rs;

/* stages: how many between the reader and the loss; 0: 2 to 7 */
void rs_make(rs *g, uint64_t seed, int stages, int lanes);
int rs_below(rs *g, int n); /* 0..n-1 */
#endif
