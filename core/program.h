/* SPDX-License-Identifier: MIT
 * program.h - a graph turned into tasks on lanes with buffers: one program for the steps of a loop, one for evaluation. */
#ifndef SP_CORE_PROGRAM_H
#define SP_CORE_PROGRAM_H

#include "graph_impl.h"

typedef enum { SP_TASK_FORWARD, SP_TASK_BACKWARD, SP_TASK_UPDATE, SP_TASK_COLLECT } sp_task_kind;
typedef enum { SP_BUF_ACTIVATION, SP_BUF_GRADIENT, SP_BUF_SAVED } sp_buf_kind;

/* A resource of the schedule; one that has bytes is a buffer with a copy per slot. */
typedef struct sp_buf {
  char *name;
  size_t bytes; /* 0: no memory behind it: an instance's state, a weight's turn */
  sp_buf_kind kind;
  int slots, extra, group; /* as sp_sched_resource; slots is final after the schedule is derived */
  bool pinned;             /* a source's: copies start from it, so it comes from the pinned pool */
  void **ptr;              /* [slots] */
} sp_buf;

/* Where a call finds one tensor's memory for a step. */
typedef struct sp_bind {
  uint32_t tensor; /* index into sp_call.t */
  int buf;
  bool batch; /* shape[0] is N */
} sp_bind;

/* One call in flight. Everything in it but data pointers, N and the step block is set once. */
typedef struct sp_call {
  struct sp_task *task;
  uint64_t step;
  sp_step block;
  float dw_scale;
  sp_io io;
  sp_tensor *t;
  sp_list *lists;
  sp_err err;
  uint64_t *hash; /* [task->n_hashes] */
} sp_call;

typedef struct sp_task {
  struct sp_program *prog;
  sp_task_kind kind;
  int index; /* in serialized order */
  char *name;
  sp_node *node; /* NULL: COLLECT */
  int lane, every, phase;
  sp_sched_access *acc;
  size_t n_acc, cap_acc;
  /* the call's tensors, in this order: in, out, dout, din, weights, dweights */
  sp_tensor *proto;
  size_t n_t, cap_t;
  sp_list *lists; /* per port of in, out, dout, din; t holds an offset until calls are made */
  size_t *offset;
  size_t n_lists;
  size_t first_weight, first_dweight;
  uint8_t **din_acc; /* [n_in][list n], NULL: none */
  sp_bind *binds;
  size_t n_binds, cap_binds;
  int saved_buf;
  sp_call *calls; /* [prog->ring] */
  void **events;  /* [item.ring] */
  size_t n_hashes, cap_hashes;
  sp_hash *hashes; /* names; what is hashed, in this order: see hash_call */
} sp_task;

typedef struct sp_lane {
  char *name;
  int delay, priority;
  bool host;
  void *stream;
  bool borrowed; /* the stream is another program's */
  void *scratch;
  size_t scratch_bytes;
} sp_lane;

typedef struct sp_metric_slot {
  sp_node *node;
  int port, buf;
  uint32_t index;
  char *name;
} sp_metric_slot;

struct sp_program {
  sp_graph *g;
  bool training;              /* io->training, backward and update tasks */
  sp_node *source, *stand_in; /* what feeds it; the same, where it stands in for the training source */
  struct sp_program *next_eval;
  sp_sampler sampler;
  bool has_sampler;
  sp_lane *lanes;
  size_t n_lanes;
  int host_lane, update_lane, collect_delay;
  int shift; /* what a lane's delay has over the one that the strategy gives */
  int lag;   /* steps that the slowest lane runs behind the trained part */
  sp_task *tasks;
  size_t n_tasks, cap_tasks;
  sp_buf *bufs;
  size_t n_bufs, cap_bufs;
  int **act, **grad;                            /* [node index][flat output tensor] -> buffer, -1: none */
  int *saved, *self, *weight, *state, *dweight; /* [node index] -> resource, -1: none */
  sp_schedule sched;
  bool derived, built;
  int ring;         /* steps in flight, and then some */
  uint64_t *ids;    /* [ring][batch] */
  uint32_t *step_n; /* [ring] */
  double *step_lr;  /* [ring] */
  uint64_t lr_step; /* the step whose lr was asked last, + 1 */
  double lr;        /* of the last update that was collected, NaN: none */
  sp_metric_slot *metrics;
  size_t n_metrics, cap_metrics;
  sp_metric *shown; /* what a result points to */
  sp_hash *hashes;
  size_t n_hashes;
  /* the loop */
  bool running, halted; /* halted: after a failure, also one of an evaluation */
  uint64_t first, end;  /* steps of this loop; end UINT64_MAX: none */
  uint64_t tick;
  size_t pos;         /* in sched.order, within the tick */
  uint64_t next;      /* step that a loop begins with */
  uint64_t delivered; /* steps collected in this program's life, absolute */
  sp_result result;
};

/* Tasks, resources, lanes and schedule; no memory of tensors yet. stand_in NULL for the loop's own program. */
int sp_program_plan(sp_program **prog, sp_graph *g, bool training, sp_node *stand_in, sp_err *err);
int sp_program_build(sp_program *prog, sp_err *err); /* memory, streams, events, calls, prepare */
void sp_program_free(sp_program *prog);
void sp_program_memory(const sp_program *prog, sp_mem *mem); /* adds */

bool sp_program_has(const sp_program *prog, const sp_node *node); /* its tasks are in it */

/* lanes.c */
int sp_program_lanes(sp_program *prog, sp_err *err);

/* run.c */
int sp_program_begin(sp_program *prog, uint64_t first, uint64_t n, sp_err *err);
int sp_program_next(sp_program *prog, const sp_result **res, sp_err *err);
int sp_program_sync(sp_program *prog, sp_err *err); /* all lanes; reports the first failure */
void sp_call_fill(sp_call *call, uint64_t step, uint32_t n);

#endif
