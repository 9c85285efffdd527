/* SPDX-License-Identifier: MIT
 * program.h - a graph turned into tasks on lanes with buffers: one program for the steps of a loop, one for evaluation. */
#ifndef SP_CORE_PROGRAM_H
#define SP_CORE_PROGRAM_H

#include "graph_impl.h"

typedef enum {
  SP_TASK_FORWARD,
  SP_TASK_BACKWARD,
  SP_TASK_UPDATE,
  SP_TASK_COLLECT, /* host: a step's metrics */
  SP_TASK_FILL,    /* host: step blocks of a lane, in pinned memory */
  SP_TASK_AWAIT,   /* host: waits for what a stream of the main device cannot wait for */
  SP_TASK_COPY     /* between pinned memory and the main device */
} sp_task_kind;
typedef enum { SP_BUF_ACTIVATION, SP_BUF_GRADIENT, SP_BUF_SAVED } sp_buf_kind;
#define SP_PHASES_MAX 256  /* graphs that one segment may be recorded into */
#define SP_BLOCK_HEAD 64   /* bytes before the ids of a lane's step block: its learning rate's step */
#define SP_BLOCK_BYTES 128 /* of one task's sp_step in it */

typedef enum { SP_AT_MAIN, SP_AT_CPU, SP_AT_PINNED } sp_buf_at;

/* Buffers that lie side by side, slot by slot, so that one copy moves them all. */
typedef struct sp_pack {
  size_t bytes;
  int first;  /* its buffer at offset 0, whose slots are the pack's */
  void **ptr; /* [slots] */
} sp_pack;

/* A resource of the schedule; one that has bytes is a buffer with a copy per slot. */
typedef struct sp_buf {
  char *name;
  size_t bytes; /* 0: no memory behind it: an instance's state, a weight's turn */
  sp_buf_kind kind;
  int slots, extra, group; /* as sp_sched_resource; slots is final after the schedule is derived */
  sp_buf_at at;
  bool ring;     /* as many slots as steps may be in flight */
  int pack;      /* index, -1: memory of its own */
  size_t offset; /* in the pack */
  void **ptr;    /* [slots] */
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
  uint32_t n; /* the samples that the tensors are set to */
  struct sp_late *late; /* [item.n_waits]: events that a cpu stream waits for on its own thread */
  sp_step block;
  float dw_scale;
  sp_io io;
  sp_tensor *t;
  sp_list *lists;
  sp_err err;
  uint64_t *hash; /* [task->n_hashes] */
} sp_call;

/* A stream of the cpu takes no event of another device: its thread waits for it, as one more operation. */
typedef struct sp_late {
  const sp_place *place;
  void *event;
  sp_err err;
} sp_late;

typedef struct sp_copy {
  int from, to; /* buffers */
  size_t bytes;
} sp_copy;

typedef struct sp_task {
  struct sp_program *prog;
  sp_task_kind kind;
  int index; /* in serialized order */
  char *name;
  sp_node *node; /* NULL: COLLECT */
  int lane, every, phase;
  int delay; /* -1: the lane's */
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
  sp_copy *copies;
  size_t n_copies, cap_copies;
  size_t block;   /* offset of its step block in its lane's */
  int segment;    /* -1: submitted by itself */
  sp_call *calls; /* [prog->ring] */
  void **events;  /* [item.ring] */
  void **marks;   /* [ring][2] timing events around it; NULL: no trace */
  size_t n_hashes, cap_hashes;
  sp_hash *hashes; /* names; what is hashed, in this order: see hash_call */
} sp_task;

typedef struct sp_lane {
  char *name;
  int delay, priority;
  bool host;
  const sp_place *place; /* of its stream; the submitting thread has none */
  void *stream;
  bool borrowed; /* the stream is another program's */
  void *scratch;
  size_t scratch_bytes;
  /* Of a lane on the main device behind a border. Block: ids, the learning rate's step, then a step block for each task. */
  size_t block_bytes;
  int block, block_pinned; /* buffers, -1: none */
  bool busy;               /* has tasks of stages */
  void *joint;             /* event, for captured ticks */
} sp_lane;

/* Tasks of one lane and delay that run one after another without a wait or a record between: one graph for each phase. */
typedef struct sp_segment {
  int lane, first, last;
  void **graph; /* [prog->ring], NULL: not recorded yet */
} sp_segment;

typedef struct sp_metric_slot {
  sp_node *node;
  int port;
  int buf;  /* where the stage writes it */
  int seen; /* where the host reads it */
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
  int copy_lane; /* batches on their way to the device; -1: in the lane of who reads them */
  int shift;     /* what a lane's delay has over the one that the strategy gives */
  int lag;       /* steps that the slowest lane runs behind the trained part */
  sp_task *tasks;
  size_t n_tasks, cap_tasks;
  sp_buf *bufs;
  size_t n_bufs, cap_bufs;
  sp_pack *packs;
  size_t n_packs, cap_packs;
  int **act, **grad;                            /* [node index][flat output tensor] -> buffer, -1: none */
  int **twin;                                   /* as act: its copy on the other side of the border */
  int *saved, *self, *weight, *state, *dweight; /* [node index] -> resource, -1: none */
  sp_schedule sched;
  bool derived, built;
  int ring;      /* at least the steps in flight; with capture a multiple of all slots, so that it is the phases too */
  uint64_t *ids; /* [ring][batch] */
  uint32_t *step_n; /* [ring] */
  double *step_lr;  /* [ring] */
  uint64_t lr_step; /* the step whose lr was asked last, + 1 */
  double lr;        /* of the last update that was collected, NaN: none */
  sp_metric_slot *metrics;
  size_t n_metrics, cap_metrics;
  sp_metric *shown; /* what a result points to */
  sp_hash *hashes;
  size_t n_hashes;
  sp_segment *segments;
  size_t n_segments;
  sp_capture capture; /* in effect */
  void **tick_graph;  /* [ring], with SP_CAPTURE_STEP; NULL: not recorded yet */
  bool whole, joined; /* this tick is one graph; the latest was, so that all of it is behind the root lane */
  void **cut;         /* [task] events within a recorded tick */
  void *mark;         /* a timing event, and when it was */
  double mark_time;
  uint64_t launches; /* of recorded graphs */
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

/* program.c, for the files that add tasks */
char *sp_text(const char *fmt, ...) SP_PRINTF(1, 2);
int sp_program_buf(sp_program *prog, char *name, size_t bytes, sp_buf_kind kind, int slots, int group, int *out,
                   sp_err *err);
int sp_program_task(sp_program *prog, sp_task_kind kind, sp_node *node, char *name, int lane, sp_task **out,
                    sp_err *err);
int sp_task_access(sp_task *task, int resource, int mode, sp_err *err);
size_t sp_node_flat(const sp_node *node, int port, int index);

/* border.c: what lies between the cpu's memory and the main device's. None of it does anything without a border. */
int sp_border_twins(sp_program *prog, sp_node *node, sp_err *err); /* after the node's own buffers */
int sp_border_metrics(sp_program *prog, sp_err *err);
int sp_border_begin(sp_program *prog, sp_err *err);                /* tasks before all others */
int sp_border_after(sp_program *prog, sp_node *node, sp_err *err); /* tasks behind a node's forward */
int sp_border_end(sp_program *prog, sp_err *err);                  /* tasks after all of a step */
int sp_border_check(const sp_program *prog, sp_err *err);          /* of the derived schedule */
int sp_border_run(sp_program *prog, sp_task *task, uint64_t step, void *stream, sp_err *err); /* one COPY */

/* capture.c */
int sp_capture_plan(sp_program *prog, sp_err *err);
void sp_capture_free(sp_program *prog);
/* At the beginning and the end of every tick. */
int sp_capture_begin_tick(sp_program *prog, sp_err *err);
int sp_capture_end_tick(sp_program *prog, sp_err *err);
/* Instead of submitting a task; *done: nothing is left to do for it. */
int sp_capture_task(sp_program *prog, sp_task *task, uint64_t step, bool *done, sp_err *err);

/* timeline.c; they do nothing without a trace */
int sp_timeline_make(sp_program *prog, sp_task *task, sp_err *err);
void sp_timeline_free(sp_program *prog, sp_task *task);
int sp_timeline_mark(sp_program *prog, sp_task *task, uint64_t step, bool end, sp_err *err); /* before and after it */
int sp_timeline_collect(sp_program *prog, uint64_t step, sp_err *err);

bool sp_program_has(const sp_program *prog, const sp_node *node); /* its tasks are in it */

/* lanes.c */
int sp_program_lanes(sp_program *prog, sp_err *err);

/* run.c */
int sp_program_begin(sp_program *prog, uint64_t first, uint64_t n, sp_err *err);
int sp_program_next(sp_program *prog, const sp_result **res, sp_err *err);
int sp_program_sync(sp_program *prog, sp_err *err); /* all lanes; reports the first failure */
void sp_call_fill(sp_call *call, uint64_t step, uint32_t n);
int sp_task_submit(sp_program *prog, sp_task *task, uint64_t step, sp_err *err); /* waits, call, record */
int sp_task_enqueue(sp_program *prog, sp_task *task, uint64_t step, void *stream, sp_err *err); /* the call alone */
int sp_task_waits(sp_program *prog, sp_task *task, uint64_t step, sp_err *err);
int sp_task_record(sp_program *prog, sp_task *task, uint64_t step, void *stream, sp_err *err);
void *sp_task_event(sp_program *prog, const sp_sched_wait *wait, uint64_t step); /* NULL: before the first step */
bool sp_task_runs(const sp_program *prog, const sp_task *task, uint64_t tick, uint64_t *step);

#endif
