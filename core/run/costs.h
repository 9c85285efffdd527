/* SPDX-License-Identifier: MIT
 * costs.h - what calls and lanes cost, alone and beside each other, by names that are the same in every strategy. */
#ifndef SP_CORE_COSTS_H
#define SP_CORE_COSTS_H

#include "plan/program.h"

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

void sp_costs_free(sp_costs *costs);

bool sp_task_is_work(const sp_program *p, const sp_task *t); /* a call or a copy, of no host's lane */
bool sp_task_is_plain(const sp_task *t);                     /* of no stage */
bool sp_lane_works(const sp_program *p, size_t lane);
/* What a lane does, or all lanes that are `in`, in words; NULL: out of memory, or there is none of them. */
char *sp_name_of_lane(const sp_program *p, size_t lane);
char *sp_name_of_crowd(const sp_program *p, char *const *lane_names, const bool *in);

/* NULL: it is not known. */
const sp_cost *sp_costs_task(const sp_costs *costs, const sp_task *t);
const sp_cost *sp_costs_lane(const sp_costs *costs, const char *name);
const sp_shared *sp_costs_pair(const sp_costs *costs, const char *a, const char *b);
const sp_crowd *sp_costs_crowd(const sp_costs *costs, const char *name);
int sp_costs_keep_task(sp_costs *costs, const char *name, sp_cost cost, sp_err *err);
int sp_costs_keep_lane(sp_costs *costs, const char *name, double seconds, sp_err *err);
int sp_costs_keep_pair(sp_costs *costs, const char *a, const char *b, double share, sp_err *err);
int sp_costs_keep_crowd(sp_costs *costs, char *name, double extra, sp_err *err); /* takes the name */

/* For each task of p its seconds on its lane's stream and of the host, 0 where nothing is known; share [lane][lane],
 * NaN where it was not measured. */
int sp_costs_of(const sp_costs *costs, const sp_program *p, double *cost, double *submit, double *share, sp_err *err);

#endif
