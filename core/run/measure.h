/* SPDX-License-Identifier: MIT
 * measure.h - what single calls and whole lanes cost on a machine whose loop is over, alone and beside each other. They are
 * done again on the data of the last steps, so what they compute means nothing: weights are to be put back afterwards. */
#ifndef SP_CORE_MEASURE_H
#define SP_CORE_MEASURE_H

#include "run/loop.h"

typedef struct sp_cost {
  char *name;     /* of a call or copy; of a lane all of its calls' */
  double seconds; /* on its stream */
  double submit;  /* of the host */
  bool plain;     /* a copy of no stage: a block, metrics; their names hang on the strategy */
} sp_cost;

typedef struct sp_shared {
  char *a, *b; /* names of two lanes' calls */
  double share;
} sp_shared;

typedef struct sp_crowd {
  char *name;   /* of all lanes that matter */
  double extra; /* share of any two of them beyond what two alone have: the device is full with less than all */
} sp_crowd;

/* What is known by name, whichever machine it was measured on. */
typedef struct sp_costs {
  sp_cost *task, *lane;
  sp_shared *pair;
  sp_crowd *crowd;
  size_t n_tasks, cap_tasks, n_lanes, cap_lanes, n_pairs, cap_pairs, n_crowds, cap_crowds;
  double launch; /* seconds of the host to launch a graph; 0: none was */
} sp_costs;

/* Calls and lanes that are not known yet, then pairs of lanes, then three or more of them together, within about so many
 * seconds, or once each. `last`: the last step that all lanes have done. */
int sp_measure(sp_loop *l, uint64_t last, double seconds, sp_costs *costs, sp_err *err);
void sp_costs_free(sp_costs *costs);

/* For each task of p its seconds on its lane's stream and of the host, 0 where nothing is known; share [lane][lane], NaN where
 * it was not measured. */
int sp_costs_of(const sp_costs *costs, const sp_program *p, double *cost, double *submit, double *share, sp_err *err);

#endif
