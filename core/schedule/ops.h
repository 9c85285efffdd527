/* SPDX-License-Identifier: MIT
 * ops.h - what is done in a tick: one flat list of operations, which the step loop executes and the proof reads.
 *
 * The list is the same for every tick. An operation belongs to a task and is done in tick t where the task runs: at
 * step t - delay, if that lies in the loop and `every` and `phase` say so. Its step chooses slots,
 * events and call records.
 *
 * A LAUNCH is followed by its body, `n` operations that may be recorded once for each phase of the ring and replayed as
 * one graph; where they may not (a short batch, fill, drain, the first step) they are done one by one, as they stand.
 *  - A LAUNCH of a lane has a body without waits and records, so to the proof it is its body.
 *  - A LAUNCH of the tick (task -1) has all operations of the lanes of one place as its body. As a graph it is one
 *    operation of its lane's stream, the root: waits and records in it order its parts, those for earlier ticks are
 *    implied since the root's stream runs graphs one after another. A RECORD without a task behind it stands for all
 *    records of the body, which other places wait for. Where a tick that is launched follows one that was not, the root
 *    first waits for all lanes of the place; the other way round all lanes wait for the root. */
#ifndef SP_CORE_OPS_H
#define SP_CORE_OPS_H

#include "schedule/schedule.h"

typedef enum sp_op_kind {
  SP_OP_CALL,    /* a stage's forward, backward or update */
  SP_OP_NONE,    /* of a task that only waits: no such operation is in a list */
  SP_OP_COPY,    /* between two places */
  SP_OP_COMM,    /* between ranks: all of them have this operation, in the same order */
  SP_OP_FILL,    /* the host writes what stages are told of a step */
  SP_OP_COLLECT, /* the host takes a step's metrics: the step is over */
  SP_OP_WAIT,    /* the lane's stream waits for the event of `from`, as sp_sched_wait */
  SP_OP_SYNC,    /* the host does */
  SP_OP_RECORD,  /* the task's event, on its lane's stream; task -1: see LAUNCH */
  SP_OP_MARK, /* the time, for `from`; `back` 0: before an operation, 1: behind it. It is not part of a graph: in a body
                    it is done where that is done one by one */
  SP_OP_HASH, /* checksums of what the task has written */
  SP_OP_FINISH, /* the host waits for all of the lane's stream */
  SP_OP_LAUNCH,
  SP_OP_KINDS
} sp_op_kind;

/* Who reads the times of a MARK. */
enum { SP_MARK_TRACE, SP_MARK_COMM, SP_MARK_READERS };

typedef struct sp_op {
  int kind, lane; /* the lane whose stream, or the host's */
  int task;       /* -1: done in every tick */
  int from, back; /* WAIT, SYNC: as sp_sched_wait; LAUNCH: `from` is its number; MARK: who reads it */
  int n;          /* LAUNCH: operations of the body, counted by sp_ops_put and sp_ops_remove */
} sp_op;

typedef struct sp_ops {
  sp_op *op;
  size_t n, cap;
  int *ring;     /* [task] events of it */
  int tick_ring; /* events of launched ticks */
  int n_launch;
  size_t open; /* 1 + the index of the LAUNCH whose body is being put; 0: none */
} sp_ops;

const char *sp_op_name(int kind); /* "WAIT" */
/* It reads or writes what its task says. */
static inline bool sp_op_works(int kind) {
  return kind == SP_OP_CALL || kind == SP_OP_COPY || kind == SP_OP_COMM || kind == SP_OP_HASH;
}

/* The list of a schedule: in the order of submission each task's waits, itself, its record. */
int sp_ops_lower(sp_ops *ops, const sp_schedule *s, const sp_sched_input *in, sp_err *err);
int sp_ops_put(sp_ops *ops, sp_op op, sp_err *err); /* appends, to the body that is open */
/* A LAUNCH on `lane`, for `task` or -1, with the next number. What is put until sp_ops_close is its body. */
int sp_ops_launch(sp_ops *ops, int lane, int task, sp_err *err);
void sp_ops_close(sp_ops *ops);
/* Takes operation i out; of a body, one less is launched. With it, nobody else keeps count of a body. */
void sp_ops_remove(sp_ops *ops, size_t i);
size_t sp_ops_body(const sp_ops *ops, size_t i); /* the LAUNCH whose body operation i is part of; SIZE_MAX: none */
void sp_ops_free(sp_ops *ops);

/* Refuses a list of any other form than the above with SP_E_INVALID: indices, lanes, bodies, numbers of LAUNCHes. Then
 * plays fill, at least two periods, drain and refill with vector clocks, from the declared accesses and the list alone,
 * and fails with SP_E_RACE naming both tasks, the resource and the missing wait, if any two conflicting accesses are
 * unordered or in the wrong order, or an event is recorded again too early. Where whole ticks may be launched they are
 * played so, so again with ticks between them that are not, as short batches make them, and with none launched; and
 * drained at each phase of the period. */
int sp_ops_prove(const sp_ops *ops, const sp_sched_input *in, const int *slots, sp_err *err);

static inline int sp_sched_delay(const sp_sched_input *in, int task) {
  const sp_sched_task *t = &in->tasks[task];
  return t->delay >= 0 ? t->delay : in->lanes[t->lane].delay;
}

#endif
