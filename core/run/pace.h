/* SPDX-License-Identifier: MIT
 * pace.h - which of several ranks takes the longest for a step of its own, and how long they wait for each other.
 *
 * Between two steps a rank's own time is all but that in which it waits for other ranks and has nothing to do that they need. All
 * are told it with the step's metrics, so all say the same. What a device waits for by itself the host does not see. */
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
  double *own;            /* [n_ranks] means over some steps; */
  double *sorted;         /* room for them */
  double sum, sum_waited; /* of all ranks, likewise */
  unsigned steps;         /* that are in the means */
  sp_pace pace;
} sp_pacer;

/* A step of this rank is over. */
sp_rank_time sp_pace_take(sp_pacer *p, sp_ranks *ranks);
/* What the ranks have told each other; NULL: nothing is known yet. */
const sp_pace *sp_pace_add(sp_pacer *p, const sp_rank_time *(*of_rank)(const void *arg, int rank), const void *arg);

#endif
