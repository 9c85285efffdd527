/* SPDX-License-Identifier: MIT
 * launch.h - the ranks of a job on this host, without mpirun, torchrun or srun. */
#ifndef SP_CORE_RANKS_LAUNCH_H
#define SP_CORE_RANKS_LAUNCH_H

#include <stdbool.h>

#include "base/err.h"

#define SP_LAUNCH_MAX 256

typedef struct sp_launch {
  bool is_rank; /* this process is one of the ranks, and goes on; else the one that has started them: they have ended */
  int listener; /* of rank 0: the socket that it listens on, else -1 */
  bool *led;    /* is_rank: to be set where this rank ends because another one has failed; shared with the launcher */
  int code;     /* not is_rank: the exit code of the first that failed by itself, or 0 */
} sp_launch;

/* Makes `ranks` processes out of this one, which may not have any thread but its own yet, and passes on what they print
 * and what signals this one gets. The variables that sp_ranks_find reads are set in them. They end with this process,
 * however that ends. */
int sp_ranks_launch(int ranks, sp_launch *launch, sp_err *err);

#endif
