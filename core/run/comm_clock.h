/* SPDX-License-Identifier: MIT
 * comm_clock.h - of a device: how long a rank's lane of collectives is at work in a step, in which it waits for others.
 *
 * A device waits by itself, so its own events have to tell when it began and was done. They take some of its time, so
 * one step in 16 is looked at, the same on all ranks, and what its events say is read two steps later: it is over then,
 * and those steps are timed. In a step that is one graph there is no place for events, and nothing is told. */
#ifndef SP_CORE_COMM_CLOCK_H
#define SP_CORE_COMM_CLOCK_H

#include "run/loop.h"

typedef enum sp_clock_word { SP_CLOCK_NOTHING, SP_CLOCK_LOOKS, SP_CLOCK_TELLS } sp_clock_word;

/* *clock is NULL where no MARK of the list is for it: one rank, or the host sees how long it waits; not a training. */
int sp_comm_clock_new(sp_comm_clock **clock, const sp_machine *m, sp_err *err);
void sp_comm_clock_free(sp_comm_clock *clock, const sp_machine *m);

/* What ranks do from here on is waited for in the next step, which is not looked at. NULL: does nothing. */
void sp_comm_clock_pause(sp_comm_clock *clock);
/* A MARK of the list, or before (`behind` 0) and behind a graph that is launched for a pass. NULL: does nothing. */
int sp_comm_clock_mark(sp_comm_clock *clock, const sp_loop *l, const sp_op *op, uint64_t pass, int behind, sp_err *err);
/* At the end of each step, which may be one that is looked at, or the one where *seconds of such are told, once. */
sp_clock_word sp_comm_clock_read(sp_comm_clock *clock, const sp_machine *m, uint64_t step, double *seconds);

#endif
