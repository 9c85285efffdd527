/* SPDX-License-Identifier: MIT
 * program.h - what happens in a step: a graph turned into tasks on lanes with buffers, and a schedule. One program for
 * the steps of a loop, one for each evaluation. It is made at once, by sp_program_new, and never changes afterwards;
 * what it runs with is the machine's (machine.h). */
#ifndef SP_CORE_PROGRAM_H
#define SP_CORE_PROGRAM_H

#include "graph/model.h"
#include "schedule/ops.h"

typedef enum {
  SP_TASK_FORWARD,
  SP_TASK_BACKWARD,
  SP_TASK_UPDATE,
  SP_TASK_APPLY,   /* of factors */
  SP_TASK_SURVEY,  /* of slices of gradients, before their update */
  SP_TASK_LOOK,    /* no call: the optimizer's weights are whole again, and are hashed */
  SP_TASK_COLLECT, /* host: a step's metrics */
  SP_TASK_FILL,    /* host: step blocks of a lane, in pinned memory */
  SP_TASK_AWAIT,   /* host: waits for what a stream of the main device cannot wait for */
  SP_TASK_COPY,    /* between pinned memory and the main device */
  SP_TASK_COMM     /* bytes between ranks */
} sp_task_kind;
typedef enum { SP_BUF_ACTIVATION, SP_BUF_GRADIENT, SP_BUF_SAVED } sp_buf_kind;
typedef enum { SP_AT_MAIN, SP_AT_CPU, SP_AT_PINNED } sp_buf_at;

#define SP_PHASES_MAX 256 /* graphs that one LAUNCH may be recorded into */

/* What the host tells a lane behind a border of a step, in one block: this head, the ids, then each task's sp_step. */
typedef struct sp_block_head {
  float minus_lr; /* of updates in place */
  char pad[60];
} sp_block_head;
typedef struct sp_block_task {
  sp_step step;
  char pad[128 - sizeof(sp_step)];
} sp_block_task;
_Static_assert(sizeof(sp_block_head) == 64 && sizeof(sp_block_task) == 128, "blocks keep their parts aligned");

/* Buffers that lie side by side, slot by slot, so that one copy moves them all: all have as many slots. */
typedef struct sp_pack {
  size_t bytes;
  int first; /* its buffer at offset 0 */
} sp_pack;

/* A resource of the schedule; one that has bytes is a buffer with a copy per slot. */
typedef struct sp_buf {
  char *name;
  size_t bytes; /* 0: no memory behind it: an instance's state, a weight's turn */
  sp_buf_kind kind;
  int slots, extra, group; /* as sp_sched_resource; slots as the schedule has them */
  sp_buf_at at;
  bool ring;     /* as many slots as steps may be in flight */
  int pack;      /* index, -1: memory of its own */
  size_t offset; /* in the pack */
} sp_buf;

/* Where a call finds one tensor's memory for a step. */
typedef struct sp_bind {
  uint32_t tensor; /* index into the call's tensors */
  int buf;         /* -1: no memory that changes */
  bool batch;      /* shape[0] is N */
  size_t each;     /* of factors: bytes of a pass, which lie behind each other; 0: it is none */
} sp_bind;

typedef struct sp_copy {
  int from, to; /* buffers */
  size_t bytes;
} sp_copy;

/* A call of the communicator; a task has one, or several gathers. Memory that stays, or (NULL) buffers, of which one
 * alone has a slot. */
typedef struct sp_move {
  enum { SP_MOVE_TO_ALL, SP_MOVE_GATHER, SP_MOVE_FIRST } kind; /* FIRST: a broadcast of rank 0's `to` */
  void *to;
  const void *from;
  int to_buf, from_buf;
  size_t each;
} sp_move;

typedef struct sp_task {
  sp_task_kind kind;
  int index; /* in serialized order */
  char *name;
  sp_node *node; /* NULL: none of a stage */
  int lane, every, phase;
  int delay; /* -1: the lane's */
  sp_sched_access *acc;
  size_t n_acc, cap_acc;
  /* the call's tensors, in this order: in, out, dout, din, weights, dweights, factors */
  sp_tensor *proto;
  size_t n_t, cap_t;
  sp_list *lists; /* per port of in, out, dout, din; t is none: `offset` says where in proto */
  size_t *offset;
  size_t n_lists;
  size_t first_weight, first_dweight, first_factor; /* the last is 0 where there are none */
  uint8_t **din_acc;                                /* [n_in][list n], NULL: none */
  sp_bind *binds;
  size_t n_binds, cap_binds;
  int saved_buf, scratch_buf; /* -1: none; the lane's */
  int scale_buf;              /* APPLY: what dw_scale points to */
  int sums_buf;               /* SURVEY, UPDATE: what sums points to; -1: nothing */
  uint32_t part;              /* BACKWARD, APPLY, UPDATE: which of its node's */
  sp_copy *copies;
  size_t n_copies, cap_copies;
  size_t block;         /* a call's: offset of its sp_step in its lane's block; 0: it is told nothing there */
  int of_lane;          /* FILL: whose block */
  const sp_node *moves; /* AWAIT, COPY: whose outputs; NULL: none of a stage */
  sp_move *calls;       /* COMM: of the communicator */
  size_t n_calls, cap_calls;
  sp_inst *instead; /* FORWARD: of the cache of its node, NULL: the node itself is called */
  bool always;      /* it runs where the pass has no samples, too */
  bool zeroes;      /* so does its call, which then sets factors to zero */
} sp_task;

typedef struct sp_lane {
  sp_lane_props props; /* name is owned; delay: behind the newest batch, sources included */
  char *asked;         /* the lane of the strategy that it is, or is one of or beside; NULL: none */
  int replica;         /* which of props.replicas, at least 1, it is; they lie side by side */
  bool host;
  bool used;       /* has tasks: all that a strategy lists for it may belong elsewhere */
  sp_place *place; /* of its stream; the submitting thread has none */
  size_t scratch;  /* bytes: its tasks run one after another */
  size_t block_bytes;
  int block, block_pinned; /* buffers of its step blocks, -1: it needs none */
} sp_lane;

typedef struct sp_metric_slot {
  sp_node *node;
  int port;
  int buf;  /* where the stage writes it */
  int seen; /* where the host reads it */
  uint32_t index;
  bool result; /* a sample of each of the batch, not a figure of the step */
  char *name;
} sp_metric_slot;

typedef struct sp_program {
  sp_graph *g;                /* which outlives it */
  char *strategy;             /* its name, for messages */
  bool training;              /* io->training, backward and update tasks */
  bool fills;                 /* it fills the caches, and has no other stages than those that takes */
  sp_node *source, *stand_in; /* what feeds it; the same, where it stands in for the training source */
  uint64_t length;            /* samples of the source, 0: there is none */
  int micro;                  /* passes over its tasks that a step has: here, and in all that runs it, they are steps */
  bool sharded;               /* a step has several passes, here or on other ranks */
  bool totals;                /* gradients are divided by what the loss is a mean over in all passes of an update */
  bool looks;                 /* no update has all weights: behind the last they are looked at for their checksums */
  sp_lane *lanes;
  size_t n_lanes;
  int host_lane, update_lane, collect_delay;
  int shift; /* what a lane's delay has over the one that the strategy gives */
  sp_task *tasks;
  size_t n_tasks;
  sp_buf *bufs;
  size_t n_bufs;
  sp_pack *packs;
  size_t n_packs;
  sp_metric_slot *metrics;
  size_t n_metrics;
  sp_sched_input
      in; /* what the schedule was derived from: lanes, tasks and buffers again, as the scheduler sees them */
  sp_schedule sched;
  int ring; /* at least the steps in flight; with capture a multiple of all slots, so that it is the phases too */
  sp_capture capture; /* that the ring allows */
} sp_program;

/* Tasks, resources, lanes and schedule. The graph is complete. stand_in NULL: the loop's own program, with the lanes of
 * the strategy; else an evaluation, which has lanes of its own.
 * Programs of several strategies may be there side by side. */
int sp_program_new(sp_program **prog, sp_graph *g, sp_node *stand_in, const sp_strategy *strategy, sp_err *err);
/* That which fills the caches with all samples of a source. */
int sp_program_new_fill(sp_program **prog, sp_graph *g, sp_node *source, sp_err *err);
void sp_program_free(sp_program *prog);
/* Whose call it is; t->node is not NULL. */
static inline sp_inst *sp_task_inst(const sp_task *t) { return t->instead ? t->instead : t->node->inst; }
/* Parts of a lane's scratch memory: bytes of one, and where the next begins. */
static inline size_t sp_scratch_room(size_t bytes) { return (bytes + 255) / 256 * 256; }
/* again.c: what the stage keeps for its backward lies in the scratch memory of its lane, since its forward is run again
 * before it. */
bool sp_program_again(const sp_program *p, const sp_node *n);
size_t sp_again_saved(const sp_node *n);                /* where: behind the stage's own */
size_t sp_again_bytes(const sp_node *n, bool backward); /* of all; in a backward outputs and statistics, too */

static inline sp_call_kind sp_task_call(sp_task_kind kind) {
  return kind == SP_TASK_BACKWARD ? SP_CALL_BACKWARD
         : kind == SP_TASK_APPLY  ? SP_CALL_APPLY
         : kind == SP_TASK_SURVEY ? SP_CALL_SURVEY
                                  : SP_CALL_FORWARD;
}
/* A stage is called, and reads the step block. */
static inline bool sp_task_is_told(sp_task_kind kind) { return kind != SP_TASK_APPLY && kind != SP_TASK_LOOK; }
bool sp_program_has(const sp_program *prog, const sp_node *node); /* its tasks are in it */
bool sp_program_calls(const sp_program *prog,
                      const sp_node *node); /* and the stage itself is called: no cache is read */
/* Calls find minus the learning rate in dw_scale. */
bool sp_call_takes_lr(const sp_program *prog, const sp_node *node, sp_task_kind kind);
size_t sp_program_streams(const sp_program *prog); /* lanes that have tasks, the host's aside */
const sp_place *sp_program_place(const sp_program *prog, const sp_buf *buf);

/* memory.c */
typedef struct sp_mem {
  uint64_t weights, gradients, optimizer, activations, saved, scratch, cache, total; /* bytes */
  uint64_t host; /* of caches, in none of these where the device has memory of its own */
} sp_mem;
/* What the weights and all of these programs take. */
void sp_memory_count(const sp_graph *g, const sp_program *const *progs, size_t n, sp_mem *mem);
/* Refuses what cannot fit before anything of it is allocated. */
int sp_memory_check(const sp_graph *g, const sp_program *const *progs, size_t n, sp_err *err);

#endif
