/* SPDX-License-Identifier: MIT
 * loop.h - how far a machine has got. The loop walks the list of operations tick by tick and decides nothing that the
 * list does not say but one: whether a graph may be launched where it says LAUNCH. One thread submits;
 * streams execute. */
#ifndef SP_CORE_LOOP_H
#define SP_CORE_LOOP_H

#include "run/machine.h"

typedef struct sp_loop {
  sp_machine *m;
  bool running;
  uint64_t first, end;    /* steps that may begin; end UINT64_MAX: there is no last */
  uint64_t last;          /* of all of the loop, which goes on behind a pause at `end` */
  const uint64_t *pauses; /* [n_pauses] it pauses where so many steps (of `micro` passes), or a multiple, are over */
  size_t n_pauses;
  uint64_t tick;
  size_t pos;         /* next operation of the tick */
  uint64_t next;      /* step that a loop begins with */
  uint64_t delivered; /* steps collected in this machine's life, absolute */
  uint64_t early;     /* all tasks of the steps before have run, but for their collection: lanes behind were played */
  bool whole, joined; /* this tick was launched; the latest was, so that all of it is behind the root's stream */
  uint64_t lr_step;   /* the step whose lr was asked last, + 1 */
  double lr;          /* of the last update that was collected, NaN: none */
  uint64_t launches;
  uint64_t open;               /* steps of requests that have begun and are not collected */
  uint64_t last_real;          /* the last of them that has begun */
  bool told;                   /* requests were answered that no step has done, and the script does not know yet */
  bool (*stopped)(void);       /* requests are not waited for any more; NULL: never */
  uint32_t (*asks)(void *arg); /* see sp_engine_ask; NULL: nothing */
  void *asks_arg;
  bool timed;     /* the seconds that the host waits for others are counted */
  double blocked; /* so many */
  void *mark;     /* a timing event, and when it was; NULL: none yet */
  double mark_time;
  double left; /* when the script got the last result, 0: nothing is traced */
  sp_result result;
} sp_loop;

void sp_loop_init(sp_loop *l, sp_machine *m);
int sp_loop_begin(sp_loop *l, uint64_t first, uint64_t n, sp_err *err);
/* The next step's result, or NULL at the end. Where a stage fails at some step, the steps before it come first; on
 * failure nothing is in flight. */
int sp_loop_next(sp_loop *l, const sp_result **res, sp_err *err);
/* No step from `end` on begins any more. What stages ahead have done of them stays; their failures are dropped. */
void sp_loop_cut(sp_loop *l, uint64_t end);
/* Whether the steps up to the next pause are over, and more are to come. The next result goes on behind it. */
bool sp_loop_pauses(const sp_loop *l);
/* Waits until nothing is in flight; streams that a failure stopped begin anew, and the failure is kept for its step. */
int sp_loop_settle(sp_loop *l, sp_err *err);
/* All of the steps before `bound` has run, also on lanes behind, and nothing is in flight; a failure is kept as by
 * sp_loop_settle, the first of them in serialized order. Which steps are collected when stays the same. */
int sp_loop_reach(sp_loop *l, uint64_t bound, sp_err *err);
bool sp_loop_runs(const sp_loop *l, int task, uint64_t *step); /* in this tick */
int sp_loop_collector(const sp_loop *l, uint64_t step);        /* the task that collects it */

/* submit.c: all that `task` of `step` has the host wait for is over */
bool sp_submit_ready(const sp_loop *l, int task, uint64_t step);
/* The source is done with `step`, so that other lanes may begin with it. */
bool sp_submit_prepared(const sp_loop *l, uint64_t step);
/* One operation, COLLECT aside, which belongs to `step` (for those of no task: ignored); *pos is behind it in the
 * list, and behind its body where a graph was launched. */
int sp_submit(sp_loop *l, size_t *pos, const sp_op *op, uint64_t step, sp_err *err);

/* The same call or copy of a step that is over, once more, on `stream` of its lane's place;
 * nothing where it did not run. */
int sp_submit_again(sp_loop *l, const sp_task *task, uint64_t step, void *stream, sp_err *err);

/* collect.c: a step is over */
sp_metric sp_metric_of(const sp_metric_slot *slot, const void *data);
int sp_collect(sp_loop *l, uint64_t step, sp_err *err);
void sp_collect_suspect(const sp_loop *l, sp_err *err); /* names who may have made a device fail */

/* timeline.c; nothing is kept of steps that no trace wants */
int sp_timeline_begin(sp_loop *l, uint64_t n, sp_err *err);
void sp_timeline_host(const sp_loop *l, sp_slice_kind kind, int task, uint64_t step, double begin, double end);
int sp_timeline_mark_launch(sp_loop *l, const sp_op *op, uint64_t step, int behind, sp_err *err);
int sp_timeline_mark(sp_loop *l, const sp_op *op, uint64_t step, sp_err *err);
int sp_timeline_collect(sp_loop *l, uint64_t step, sp_err *err);
/* What the device tells of launches; behind the last step that is kept the device is told that no more is wanted.
 * Waits for all streams. */
int sp_timeline_read(sp_loop *l, bool last, sp_err *err);

#endif
