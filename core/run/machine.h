/* SPDX-License-Identifier: MIT
 * machine.h - with what a program runs: its list of operations, streams, events, memory, call records.
 *
 * Made in two goes. sp_machine_new makes the list, all passes over it included, and proves it; nothing of the device is
 * taken yet, so that a script can look at it. sp_machine_build takes memory, streams and events and prepares every
 * stage. After that only what is marked `moves` changes while a loop runs, and nothing is allocated. */
#ifndef SP_CORE_MACHINE_H
#define SP_CORE_MACHINE_H

#include "run/again.h"
#include "run/failure.h"
#include "run/gate.h"
#include "device/pool.h"
#include "plan/program.h"
#include "run/result.h"
#include "source/sampler.h"

/* One call in flight. Everything in it but data pointers, N and the step block is set once. */
typedef struct sp_call {
  const sp_task *task;
  struct sp_machine *m;
  uint64_t step; /* moves */
  uint32_t n;    /* moves: the samples that the tensors are set to */
  sp_step block;
  float dw_scale;
  sp_io io;
  sp_tensor *t;
  sp_list *lists;
  sp_again *again; /* a forward before it; NULL: none */
  sp_err err;
  uint64_t *hash; /* [the task's n_hashes], of the machine's sums */
} sp_call;

/* A stream of the cpu takes no event of another device: its thread waits for it, as one more operation. */
typedef struct sp_late {
  const sp_place *place;
  void *event;
  sp_err err;
} sp_late;

typedef struct sp_stream {
  const sp_place *place; /* NULL: the host's lane */
  void *own;             /* NULL: it takes that of `from` */
  const struct sp_stream *from;
  const char *name;
  int priority;
  void *scratch;
  void *joint, *cut; /* events for launched ticks: outside of the graph and within */
} sp_stream;

typedef struct sp_mark {
  void *event;
  double time; /* moves: where there is no event */
} sp_mark;

/* What one task has of the machine. */
typedef struct sp_post {
  sp_call *calls; /* [ring] */
  void **events;  /* [its ring of events] */
  void **at;      /* moves: which event each of them stands for now: itself, or a tick's */
  void *cut;      /* its record within a launched tick */
  sp_mark *marks; /* [ring][2] around it; NULL: nothing times it so */
  uint64_t *ran;  /* moves: [ring] 1 + the step that marks are of; NULL where they are */
  size_t n_hashes, cap_hashes;
  sp_hash *hashes; /* names; what is hashed, in this order: see checksum.c */
} sp_post;

/* A checksum: the j-th of a task's hashes. */
typedef struct sp_hash_of {
  size_t task, j;
} sp_hash_of;

/* A launch, for a trace. */
typedef struct sp_launched {
  sp_mark *marks; /* [ring][2] around it */
  uint64_t *step; /* moves: [ring] 1 + the step that they are of; 0: they were read */
  uint64_t *run;  /* moves: [ring] its number in the trace, 0: none */
  int task;
} sp_launched;

/* What the host knows of a step that has begun. */
typedef struct sp_known {
  uint32_t n;    /* samples that run; of a step of requests all of the batch, or none */
  uint32_t real; /* of them those that somebody asked for */
  bool full;     /* of samples, on all ranks */
  double lr;
} sp_known;

typedef struct sp_shards sp_shards;
typedef struct sp_comm_clock sp_comm_clock;

typedef struct sp_machine {
  sp_graph *g;
  const sp_program *p;
  sp_ops ops;         /* proved */
  sp_capture capture; /* in effect */
  size_t launch;      /* index of the LAUNCH of the tick, SIZE_MAX: there is none */
  sp_pool *pool;
  sp_sampler sampler;
  sp_feed feed;
  sp_queue *queue; /* it reads requests; not owned */
  sp_gate gate;    /* moves: when a step of theirs may begin */
  int behind;      /* ticks until all that lanes do of a step was submitted */
  bool has_feed, built;
  uint64_t stride, offset; /* of an evaluation: its step s is number s * stride + offset of all ranks' */
  size_t batch;            /* of the source, 1 without */
  sp_stream *streams;      /* [lane] */
  sp_post *posts;          /* [task] */
  void ***buf;             /* [buffer][slot] */
  void ***pack;            /* [pack][slot] */
  sp_late **late;          /* [operation][ring], NULL: its stream can wait itself */
  void **tick_event;       /* [ops.tick_ring] */
  void ***graph;           /* moves: [LAUNCH][ring], NULL: not recorded yet */
  uint64_t *ids;           /* moves: [ring][batch] */
  sp_known *known;         /* moves: [ring] */
  sp_comm_clock *clock;    /* moves; NULL: nothing is told of it */
  sp_shards *shards;       /* moves: what the passes of a step come to; NULL: there is one */
  sp_metric *shown;        /* moves: what a result points to */
  sp_tensor *results;      /* moves: of a step, for the answers to its requests */
  const char **result_names;
  sp_hash *hashes;
  size_t n_hashes;
  sp_hash_of *hash_of; /* [n_hashes] whose each of them is, in their order */
  char **absent;       /* [n_absent] names of outputs that no step computes */
  size_t n_absent, cap_absent;
  void *sums;         /* moves: the checksums of all call records, which the device writes */
  sp_failure failure; /* moves */
  uint16_t traced;    /* its program's number in the trace */
  sp_launched *launched;
  const sp_ranges *ranges; /* for a profiler of the device that is attached; NULL: none is */
  const sp_times *times;   /* the device's, of calls in graphs; NULL: it has none, or no trace wants them */
  sp_trace_window watch;   /* moves, while nothing is in flight */
} sp_machine;

int sp_machine_new(sp_machine **m, const sp_program *p, sp_pool *pool, sp_err *err);
/* `beside`: a machine that is idle whenever this one runs, so that their streams may be the same; may be NULL. */
int sp_machine_build(sp_machine *m, const sp_machine *beside, sp_err *err);
/* Constants of stages whose weights have changed since prepare(); nothing is in flight. Does nothing where the machine
 * is not built, which will prepare them. */
int sp_machine_refresh(sp_machine *m, sp_err *err);
/* New streams in the place of those that a failure has stopped, for all that take them from this machine too. */
int sp_machine_reopen(sp_machine *m, sp_err *err);
/* All streams; the first failure that one of them reports. */
int sp_machine_sync(sp_machine *m, sp_err *err);
/* The script's thread begins to wait for a stream there, or has waited: what other ranks have in it may never come. */
void sp_machine_block(const sp_machine *m, const sp_place *place, bool begins);
void sp_machine_free(sp_machine *m);

/* Several ranks have the graph: batches are dealt to them, shards of a step, and those of an evaluation in turn. NULL:
 * one, or each fills a cache with all samples. */
static inline const sp_reduce *sp_machine_shares(const sp_machine *m) {
  return m->p->sharded || (m->p->stand_in && !m->p->fills) ? m->g->store.reduce : NULL;
}

/* The step that a pass belongs to, as scripts and stages know it. */
static inline uint64_t sp_machine_step(const sp_machine *m, uint64_t pass) {
  return pass / (uint64_t)m->p->micro * m->stride + m->offset;
}

void sp_call_fill(sp_call *call, uint64_t step, uint32_t n);

static inline const sp_stream *sp_machine_stream(const sp_machine *m, int lane) {
  const sp_stream *s = &m->streams[lane];
  return s->from ? s->from : s;
}

/* For a profiler of the device: what this thread does from here on, for a pass of the graph, and the end of it. */
static inline void sp_range_push(const sp_machine *m, const char *name, uint64_t pass) {
  if (m->ranges) m->ranges->push(name, sp_machine_step(m, pass));
}

static inline void sp_range_pop(const sp_machine *m) {
  if (m->ranges) m->ranges->pop();
}

/* list.c: the operations, and the passes that write capture, checksums, timing and SPCORE_SYNC into them */
int sp_list_make(sp_machine *m, sp_err *err);

/* shards.c: the results of a step's passes, put together */
int sp_shards_new(sp_shards **s, const sp_machine *m, sp_err *err);
void sp_shards_free(sp_shards *s);
/* What ranks tell each other of a pass beside its results. */
typedef struct sp_pass_told {
  uint64_t end;      /* of the loop, in steps: they fail where it is not the same */
  uint32_t asked;    /* all get the bits of all */
  bool alike;        /* `bad` is of the update, which all of them make */
  const sp_err *bad; /* what a stage says of its data; NULL: nothing */
} sp_pass_told;
/* Adds what was collected of the next pass, whose samples are res->n; behind the last *res becomes that of the step, on
 * all ranks. */
int sp_shards_add(sp_shards *s, const sp_machine *m, uint64_t pass, const sp_pass_told *told, sp_result *res,
                  sp_err *err);
/* What comes before the next step is none of a step's time. */
void sp_shards_pause(const sp_machine *m);
/* Of an evaluation: *res becomes that of the batch that this rank had beside the own one; false:
 * there is no such rank. */
bool sp_shards_of_rank(sp_shards *s, const sp_machine *m, int rank, sp_result *res);

/* checksum.c: what a checked run hashes of a task, in one order for names and values */
/* Of what one rank adds up others see the whole. */
static inline bool sp_checksum_wants(const sp_machine *m, const sp_task *t) {
  return m->g->opts.checksums && t->node && !t->node->shards && !m->p->fills;
}
int sp_checksum_name(sp_machine *m, const sp_task *t, sp_err *err); /* fills the post's hashes */
/* In the order of tasks; of a backward in parts as if it were one. Of replicas the first stands for all. Then all
 * absent ones are known. */
int sp_checksum_order(sp_machine *m, sp_err *err);
/* On the stream of the call, which it is behind; where the device has no stream_hash the call must be over. */
int sp_checksum_call(sp_call *c, void *stream, sp_err *err);

/* timeline.c; they do nothing without a trace */
void sp_timeline_watch(sp_graph *g); /* has what runs on the processor timed */
int sp_timeline_tell(sp_machine *m, sp_err *err);
int sp_timeline_make_launches(sp_machine *m, sp_err *err);
void sp_timeline_free_launches(sp_machine *m);
void sp_timeline_record(const sp_machine *m, int task); /* what is recorded now is of that task; -1: of none */
bool sp_timeline_watches(const sp_machine *m, const sp_task *t);
int sp_timeline_make(sp_machine *m, const sp_task *t, sp_err *err);
void sp_timeline_free(sp_machine *m, const sp_task *t);

#endif
