/* SPDX-License-Identifier: MIT
 * trial.h - strategies tried on a graph before it runs: planned side by side, measured and timed with real steps, of
 * which nothing stays. Everything is called on one thread.
 *
 * Between begin and end the engine does nothing else. Each candidate has a program and a machine of its own, all of
 * them the graph's weights. Turns begin at the step where the graph's first loop is going to, with the weights as they
 * were then; the learning rate is the optimizer's own, so that a script's function is not asked;
 * nothing of them is traced. */
#ifndef SP_CORE_TRIAL_H
#define SP_CORE_TRIAL_H

#include "run/engine.h"

typedef struct sp_trial sp_trial;

/* The graph must not be built yet. Weights are made, or loaded, as build would, and kept in host memory. */
int sp_trial_begin(sp_engine *e, sp_err *err);
/* Drops all candidates: the engine is as it was, and has the strategy that it had; it fails where weights cannot be put
 * back. Does nothing where no trial is under way. */
int sp_trial_end(sp_engine *e, sp_err *err);

/* A candidate, planned and proved. *index is its number, or that of an earlier one that does the very same operations:
 * then there is no new one. */
int sp_trial_add(sp_engine *e, const char *name, const sp_lane_desc *lanes, size_t n, size_t *index, sp_err *err);
/* What the graph would take with it, evaluations included. */
int sp_trial_memory(sp_engine *e, size_t index, sp_mem *mem, sp_err *err);

typedef struct sp_turn {
  double seconds; /* of a step */
  double host;    /* of a step: for which the submitting thread did not wait */
  uint64_t steps; /* that were timed */
} sp_turn;
/* Builds the candidate where needed, and times so many steps, or a few more, besides those that fill and drain it; one
 * step alone is timed roughly. On failure, of a stage too, nothing is in flight and the candidate is dropped. */
int sp_trial_run(sp_engine *e, size_t index, uint64_t steps, sp_turn *turn, sp_err *err);
/* Frees what the candidate has built; it may run again. */
void sp_trial_drop(sp_engine *e, size_t index);

/* Of a candidate that has run: every call and copy that was not measured before alone, and its lanes two by two
 * together. It takes about so many seconds, or once each. Of lanes that matter little, with less than a twentieth of
 * the longest one's work, no pair is measured. */
int sp_trial_measure(sp_engine *e, size_t index, double seconds, sp_err *err);

typedef struct sp_trial_lane {
  const char *name;
  bool source;       /* what reads the data is in it */
  double busy, work; /* as sp_predicted */
} sp_trial_lane;
typedef struct sp_trial_forecast {
  double seconds, host; /* of a step */
  size_t n_lanes;
  const sp_trial_lane *lanes;
  const double *share; /* [n_lanes][n_lanes] as sp_predict_in; NaN: not measured, taken as 0 */
} sp_trial_forecast;
/* From what was measured so far. What *out points to lives until the next call for any candidate, or the end. */
int sp_trial_predict(sp_engine *e, size_t index, sp_trial_forecast *out, sp_err *err);

/* Seconds that a call or copy takes alone; *name NULL: there are no more. In the order in which they were measured. */
void sp_trial_cost(const sp_engine *e, size_t i, const char **name, double *seconds);

#endif
