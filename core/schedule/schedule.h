/* SPDX-License-Identifier: MIT
 * schedule.h - from tasks, lanes and delays to an ordered list of calls, waits and records; and its proof.
 *
 * Knows nothing of stages. A task is something run once a step (or once every `every` steps) that reads and writes
 * resources. The order of the task list is the order of the serialized program; that program is the meaning of the
 * graph, and a schedule is right when every pair of conflicting accesses happens in that order:
 *     task a of step s comes before task b of step r   if s < r, or s == r and a < b.
 *
 * Ticks. At tick t a lane with delay d runs step t - d of each of its tasks, in task order. Within a tick the oldest
 * step is submitted first. One thread, the host, submits everything; so a task's start knows all that the host knew
 * when it submitted it. Tasks on the host lane run on the submitting thread itself, and their waits block it.
 *
 * Resources. A resource has `slots` buffers; step s uses buffer s mod slots. slots 0 asks for the fewest that let the
 * schedule overlap: max over all accesses of (delay(reader or later writer) - delay(first writer)) + 1 + extra.
 * slots 1 is one buffer for all steps (weights, an instance's state). A resource that a step may read before it has
 * written it carries a value from step to step: there slots 0 means 1, whatever the delays. Resources of one `group`
 * (not 0) get the same count; a count given for one of them holds for all.
 *
 * Drains. A run may be drained to a step boundary at any step (evaluation, a checkpoint, its end): no step after the
 * boundary is submitted until all lanes have been joined. So what the host learnt in step h (a host task waited there)
 * counts as known only to tasks of step h and later; a drain just before step h would have left it out.
 */
#ifndef SP_CORE_SCHEDULE_H
#define SP_CORE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { SP_READ = 1, SP_WRITE = 2 };

typedef struct sp_sched_lane {
  const char *name;
  int delay; /* >= 0 */
  bool host; /* at most one; runs on the submitting thread */
  int place; /* streams of two places wait for each other late: a thread of the waiting one blocks when it gets there */
  const char *asked; /* the lane that a user gives a delay, for words: of copies of a lane the same; NULL: `name` */
} sp_sched_lane;

typedef struct sp_sched_access {
  int resource, mode; /* SP_READ | SP_WRITE */
} sp_sched_access;

typedef struct sp_sched_task {
  const char *name; /* "decoder.backward" */
  int lane;
  int delay;        /* -1: the lane's. Only host tasks may have one of their own */
  int every, phase; /* runs at steps s with s % every == phase; every >= 1 */
  const sp_sched_access *acc;
  size_t n_acc;
  int op; /* enum sp_op_kind (ops.h): what running it is; SP_OP_NONE: waits alone, which the accesses ask for */
} sp_sched_task;

typedef struct sp_sched_resource {
  const char *name; /* "encoder.features" */
  int slots;        /* 0: derive */
  int extra;        /* added when derived */
  int group;
} sp_sched_resource;

typedef struct sp_sched_input {
  const sp_sched_lane *lanes;
  size_t n_lanes;
  const sp_sched_task *tasks;
  size_t n_tasks;
  const sp_sched_resource *resources;
  size_t n_resources;
  int shift;     /* taken off every delay in messages: what the caller had added to a user's delays */
  int in_flight; /* steps after which the host knows that all of one is done; needed where lanes are of two places */
} sp_sched_input;

/* Before task t of step s: wait for task `task` of step s - back, or, where that task does not run at that step, for
 * its last run before it. A run that lies before step 0 counts as done. */
typedef struct sp_sched_wait {
  int task;
  int back;
} sp_sched_wait;

typedef struct sp_sched_item {
  sp_sched_wait *waits;
  size_t n_waits;
  sp_sched_wait *implied; /* asked for by accesses too, and left out since the other waits imply them */
  size_t n_implied;
  bool record; /* someone waits for it: record an event behind it */
  int ring;    /* how many events it needs, so that none is recorded again before its last wait was issued */
} sp_sched_item;

typedef struct sp_schedule {
  sp_sched_item *items; /* per task */
  size_t n_items;
  int *order; /* tasks in the order of submission within a tick */
  int *delay; /* per task, effective */
  int *slots; /* per resource */
  size_t n_resources;
  int depth;                 /* largest delay */
  size_t n_waits, n_derived; /* waits kept, and with those that the others imply, over all items */
} sp_schedule;

/* Most slots of a resource, and most clock components or buffers that a derivation or proof keeps. */
#define SP_SCHED_MAX_SLOTS 4096
#define SP_SCHED_MAX_CELLS ((size_t)1 << 26)
#define SP_SCHED_MAX_WORK (INT64_C(1) << 31) /* clock components touched in a proof: seconds */

static inline int sp_gcd(int a, int b) {
  while (b) {
    int t = a % b;
    a = b;
    b = t;
  }
  return a;
}

/* Indices, counts and names of the input; derive and prove call it first. */
int sp_schedule_check(const sp_sched_input *in, sp_err *err);
/* How many steps until the pattern of runs repeats (period), and the farthest back that the conflicting access before
 * one can lie (span), for these slots. Refuses what would take too long to play. */
int sp_schedule_span(const sp_sched_input *in, const int *slots, int *period, int *span, sp_err *err);

/* Derives slots and waits, leaves out every wait that the others imply, and proves the rest. SP_E_RACE: a consumer is
 * submitted before its producer, or a task would have to wait for a later one; names both, and which lane needs which
 * delay. SP_E_RANGE: too large. Both are what a user asked for. SP_E_INVALID: who made the input is wrong. */
int sp_schedule_derive(sp_schedule *out, const sp_sched_input *in, sp_err *err);
void sp_schedule_free(sp_schedule *s);

/* The schedule as a list of operations (ops.h), proved. */
int sp_schedule_prove(const sp_schedule *s, const sp_sched_input *in, sp_err *err);

#endif
