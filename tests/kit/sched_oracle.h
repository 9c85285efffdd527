/* SPDX-License-Identifier: MIT
 * sched_oracle.h - whether a list of operations races, from a graph of what happens before what;
 * and random changes of lists. */
#ifndef SP_TESTS_SCHED_ORACLE_H
#define SP_TESTS_SCHED_ORACLE_H

#include "schedule/ops.h"

typedef enum so_verdict { SO_FINE, SO_RACES, SO_TOO_LARGE } so_verdict;

/* Plays the list as a machine would execute it, several runs of different lengths with drains between, and looks for
 * two conflicting accesses that the graph does not put into the program's order. Knows no clocks and nothing of the
 * proof. The list has the form that the proof demands. `seed` draws lengths, and which ticks are launched.
 * Words go to `err`. */
so_verdict so_judge(const sp_ops *ops, const sp_sched_input *in, const int *slots, uint64_t seed, sp_err *err);

/* A deep copy; false: no memory. */
bool so_copy(sp_ops *to, const sp_ops *from, const sp_sched_input *in);

/* One random change that leaves indices in their ranges: an operation moves or changes places with another one, a wait
 * is for another event or another step, an operation that orders goes, a ring gets larger or smaller. *state draws. */
void so_change(sp_ops *ops, const sp_sched_input *in, uint64_t *state);

/* Graphs as capture makes them: of random segments of lanes, or of all lanes of a tick. */
int so_capture_lanes(sp_ops *out, const sp_ops *from, const sp_sched_input *in, uint64_t *state, sp_err *err);
int so_capture_tick(sp_ops *out, const sp_ops *from, const sp_sched_input *in, sp_err *err);

uint32_t so_below(uint64_t *state, uint32_t n); /* 0..n-1 */

#endif
