/* SPDX-License-Identifier: MIT
 * pace.h - which of several ranks takes the longest for a step of its own, and how long they wait for each other.
 *
 * Between two steps a rank's own time is all but that in which it waits for other ranks and has nothing to do that they
 * need. All are told it with the step's metrics, so all say the same. A device, which waits by itself, tells later how
 * long, and of some steps only. */
#ifndef SP_CORE_PACE_H
#define SP_CORE_PACE_H

#include "ranks/ranks.h"
#include "run/result.h"

/* Of a rank since the step before, in seconds; own 0: unknown. */
typedef struct sp_rank_time {
  double own, waited;
} sp_rank_time;

typedef struct sp_pacer {
  int n_ranks;
  double last, waited;    /* when the last step was, and how long this rank had waited by then; 0: there is none */
  double apart, gaps;     /* seconds from step to step since a device told of one, and how many */
  double *own;            /* [n_ranks] means over some steps; */
  double *sorted;         /* room for them */
  double sum, sum_waited; /* of all ranks, likewise */
  unsigned steps;         /* that are in the means */
  sp_pace pace;
} sp_pacer;

/* A step of this rank is over, of which the host saw all waiting. */
sp_rank_time sp_pace_take(sp_pacer *p, sp_ranks *ranks);
/* Where a device waits: `waited` seconds of a step before this one; 0: it tells of none now. */
sp_rank_time sp_pace_take_device(sp_pacer *p, double waited);
/* What was before, while graphs were recorded, is left out. */
void sp_pace_begin(sp_pacer *p);
/* What the ranks have told each other; NULL: nothing is known yet. */
const sp_pace *sp_pace_add(sp_pacer *p, const sp_rank_time *(*of_rank)(const void *arg, int rank), const void *arg);

#endif
