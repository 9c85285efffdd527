/* SPDX-License-Identifier: MIT
 * impl.h - what the files of core/hand share. */
#ifndef SP_CORE_HAND_IMPL_H
#define SP_CORE_HAND_IMPL_H

#include "params/params.h"
#include "graph/model.h"
#include "hand/hand.h"
#include "hand/races.h"

typedef struct hand_use { /* the last operation of a stream that touched a block */
  int thread;
  uint64_t number;
} hand_use;

/* Memory: a tensor's and its views', a weight's, or what a stage keeps. */
typedef struct hand_block {
  struct hand_block *next, *prev;
  sp_hand *h;
  char *name;
  void *ptr; /* NULL: freed */
  size_t bytes;
  int at;
  int race;      /* its buffer there, -1: none */
  int refs;      /* tensors and stages that hold it */
  bool borrowed; /* the graph's, which frees it */
  hand_use *uses;
  size_t n_uses, cap_uses;
} hand_block;

typedef struct hand_call hand_call;

struct sp_hand {
  int refs;
  bool open;
  sp_graph *g; /* makes and keeps the stages; has the device */
  sp_races *races;
  bool check_races;
  sp_mt19937 torch;
  bool by_torch;
  hand_block *blocks; /* all there are */
  sp_hstream *streams;
  sp_hevent *events;
  sp_hstage *stages;
  size_t n_streams, n_stages, opened;
  size_t n_unused, unused_bytes; /* blocks that nobody holds and that wait for their last use */
  sp_err failure;                /* the first of any stream */
};

struct sp_hstream {
  sp_hstream *next;
  sp_hand *h;
  char *name;
  void *own; /* the device's; NULL: closed */
  int thread;
  hand_block *scratch;
  hand_call *calls, **last_call; /* in the order of submission; of those before none is in flight */
  size_t n_calls;
  bool failed;
};

struct sp_hevent {
  sp_hevent *next, *prev;
  sp_hand *h;
  void *own;
  int id;
  bool timing, recorded;
};

struct sp_htensor {
  sp_hand *h;
  hand_block *b;
  size_t offset;
  sp_spec spec;
  sp_htensor *grad;
  int refs;
};

/* A place where a call of a device behind a border finds what it is told, and leaves its status. */
typedef struct hand_slot {
  char *pinned, *device; /* sp_step, ids, status */
  void *event;
  sp_hstream *stream; /* of its last use */
  uint64_t number;
  uint64_t step;       /* of the call */
  bool filled, status; /* pinned holds what device does; a status comes back */
} hand_slot;

enum { HAND_SLOTS = 8 };

struct sp_hstage {
  sp_hstage *next;
  sp_hand *h;
  sp_node *n;
  sp_params from; /* of its weights, an sp_load; no data: from nowhere */
  int refs;
  bool planned, trains; /* trains: backward() may be called */
  int64_t batch;
  hand_block *state, *saved, **w, **dw;
  sp_htensor **in, **out, **made; /* of the last run, ports flattened; made: own outputs */
  uint32_t n_in, n_out;           /* so many tensors */
  uint32_t *first_in, *first_out; /* [port] in those; one more at the end */
  int64_t samples;                /* of the last run */
  sp_hrun how;                    /* of the last run; ids are own */
  uint64_t *ids;
  bool ran;
  char *at, *lost; /* places of the last run that no backward has followed, and of the first before it; NULL: none */
  int64_t prepared[8][2]; /* N and training that prepare() has seen */
  int n_prepared;
  hand_slot *slots;
  sp_hstage **updates; /* of an optimizer */
  size_t n_updates;
};

/* One operand of a call. */
typedef struct hand_arg {
  hand_block *b; /* NULL: not there */
  size_t offset;
  sp_spec spec;
  int mode;
} hand_arg;

/* run.c */
void hand_forget_runs(sp_hstage *st);

/* hand.c */
int hand_check_open(const sp_hand *h, sp_err *err);
void hand_release(sp_hand *h);
/* Waits for every stream, without the clocks' knowing: the script did not ask for it. */
void hand_quiet(sp_hand *h);
int hand_block_new(sp_hand *h, size_t bytes, int at, const char *name, const char *where, hand_block **out,
                   sp_err *err);
int hand_block_borrow(sp_hand *h, void *ptr, size_t bytes, const char *name, hand_block **out, sp_err *err);
void hand_block_drop(hand_block *b);
int hand_block_free(hand_block *b, const char *where, sp_err *err); /* now, whoever holds it; refuses what is in use */
bool hand_block_busy(const hand_block *b, const hand_use **use);
int hand_block_use(hand_block *b, int thread, uint64_t number, sp_err *err);
void hand_collect(sp_hand *h); /* frees what nobody holds or uses */
sp_place *hand_place(const sp_hand *h);
const char *hand_thread_name(const sp_hand *h, int thread);

/* stream.c */
int hand_stream_ready(sp_hstream *s, sp_err *err);
/* Checked (where that is asked) and numbered; its blocks are in use until the host knows that the number is over. */
int hand_submit(sp_hstream *s, const hand_arg *args, size_t n, const char *who, const char *where, uint64_t *number,
                sp_err *err);
int hand_stream_quiet(sp_hstream *s, sp_err *err); /* waits, as hand_quiet */

/* call.c */
int hand_call_submit(sp_hstage *st, sp_hstream *s, hand_arg *args, const sp_hrun *how, bool backward, const char *where,
                     sp_err *err);
int hand_call_prepare(sp_hstage *st, sp_hstream *s, hand_arg *args, int64_t n, bool training, sp_err *err);
/* How many arguments a call of the stage has, and where each kind begins. */
typedef struct hand_layout {
  size_t in, out, dout, din, w, dw, saved, scratch, state, n;
} hand_layout;
hand_layout hand_layout_of(const sp_hstage *st);
void hand_reclaim(sp_hstream *s, bool all);                        /* records of calls that are over */
const sp_err *hand_call_failed(const sp_hstream *s);               /* the first that failed, NULL: none */
int hand_slots_look(sp_hand *h, const sp_hstream *s, sp_err *err); /* statuses that have come back */
void hand_slots_free(sp_hstage *st);

/* stage.c */
void hand_hold(sp_htensor **place, sp_htensor *t); /* in the place of what is there */
void hand_stage_let_go(sp_hstage *st);             /* of the tensors that it holds */
int hand_stage_open(const sp_hstage *st, sp_err *err);
int hand_room_for_specs(sp_speclist *s, uint32_t n, sp_err *err);
int hand_stage_plan(sp_hstage *st, sp_err *err); /* for the inputs' specs that its node has */
int hand_stage_plan_for(sp_hstage *st, const sp_hports *in, sp_err *err);
void hand_stage_unplan(sp_hstage *st); /* as before the first run */

#endif
