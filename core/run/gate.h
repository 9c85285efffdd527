/* SPDX-License-Identifier: MIT
 * gate.h - when a step of requests may begin: not when it can be queued, but when lanes are about to be free for it.
 *
 * What a step has taken grows no more, so a step that is queued behind others is a small batch that takes the time of a
 * full one. The gate lets as many steps begin as lanes can work at, and one more: where its batch is full, as it gains
 * nothing by waiting, or just in time, when what those steps still need is no longer than what a step needs before its
 * lanes can begin with it.
 *
 * Both times are learnt. A step is taken, then it is prepared (its source is done and its lanes can begin), then its
 * lanes work at it, then it is over. `lead` is the first part, `busy` the last: from when it was prepared and lanes
 * were free for it, whichever came later. The host only looks now and then, so each of these ends lies between two
 * looks, and a mean that lies between them, too, stays as it is.
 *
 * It has no clock: all times are told to it, in seconds. */
#ifndef SP_CORE_GATE_H
#define SP_CORE_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sp_gate_step {
  uint64_t step;
  double taken;
  double prepared, free; /* when, NaN: not yet; `free`: when lanes were */
} sp_gate_step;

typedef struct sp_gate_mean {
  double mean;
  unsigned n; /* that it is of; 0: nothing is known */
} sp_gate_mean;

typedef struct sp_gate {
  unsigned turns, lanes; /* step s has lanes of turn s % turns, which can work at `lanes` steps */
  double grain;          /* between two looks, about: a step that is to begin in time begins so much earlier */
  sp_gate_step *flight;  /* [cap] those that are not over, in order */
  size_t n, cap;
  double looked; /* the last look */
  double left;   /* when the host went to do something else, NaN: it is here */
  sp_gate_mean lead, busy, away;
} sp_gate;

/* Nothing is known, nothing is in flight. `room` is for as many steps as may be. */
void sp_gate_init(sp_gate *g, unsigned turns, unsigned lanes, sp_gate_step *room, size_t cap);
void sp_gate_clear(sp_gate *g, double now); /* nothing is in flight; what was learnt stays */

/* Seconds until `step`, whose batch is full or not, may begin: 0: it may; INFINITY: when another one is over, or
 * prepared. */
double sp_gate_opens(const sp_gate *g, uint64_t step, bool full, double now);
/* Another turn's lanes are free, of a step within one round from `step` on. */
bool sp_gate_skips(const sp_gate *g, uint64_t step);
/* After which time a look is worth while. */
double sp_gate_look(const sp_gate *g, double now);

void sp_gate_taken(sp_gate *g, uint64_t step, double now);
bool sp_gate_prepares(const sp_gate *g, uint64_t step); /* it is in flight, and nobody has seen that it is prepared */
/* At a look it was seen that it is prepared; that it is over. What is so already, or is not in flight, is let be. */
void sp_gate_prepared(sp_gate *g, uint64_t step, double now);
void sp_gate_over(sp_gate *g, uint64_t step, double now);
void sp_gate_looked(sp_gate *g, double now); /* the end of a look */
/* The host leaves, for a script, and is back: no step can begin in between, so that others have to last. */
void sp_gate_leave(sp_gate *g, double now);
void sp_gate_back(sp_gate *g, double now);

#endif
