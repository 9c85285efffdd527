/* SPDX-License-Identifier: MIT
 * unit.h - what an engine is made of, for the files that are parts of it: engine.c and trial.c. */
#ifndef SP_CORE_UNIT_H
#define SP_CORE_UNIT_H

#include "run/engine.h"
#include "run/loop.h"

/* One program and what it runs with. */
typedef struct sp_unit {
  sp_node *stand_in; /* NULL: the training program */
  sp_program *p;
  sp_machine *m;
  sp_loop loop;
} sp_unit;

struct sp_engine {
  sp_graph *g;
  sp_pool *pool;
  sp_unit *units; /* [0] is training's, once there are any */
  size_t n, cap;
  struct sp_trial *trial; /* NULL: none is under way */
  bool (*stopped)(void);  /* see sp_engine_stopped */
  uint32_t (*asks)(void *arg);
  void *asks_arg;
  uint64_t start;   /* the step to begin with, while there is no unit */
  uint64_t *pauses; /* [n_pauses] see sp_engine_pause */
  size_t n_pauses, cap_pauses;
  sp_kept *kept; /* of the phase before, until the one that is now is planned; NULL: nothing */
  double lr;     /* of its last update, that the next loop tells until it has one; 0: of none */
  bool cut;    /* the loop has ended, or will, before its last step */
  bool ran;    /* a loop or an evaluation has begun */
  bool sought; /* the next loop begins where no loop has ended */
  bool failed; /* nothing can run any more, and why */
  sp_err failure;
};

/* A program of the strategy's lanes and its list, proved; nothing of the device is taken. */
int sp_unit_new(sp_unit *u, sp_engine *e, sp_node *stand_in, const sp_strategy *strategy, sp_err *err);
int sp_unit_new_fill(sp_unit *u, sp_engine *e, sp_node *source, sp_err *err);
void sp_unit_free(sp_unit *u);

int sp_engine_new_pool(sp_engine *e, sp_err *err);
/* Of all units; beside: a program that takes its memory for a while, NULL: none. */
int sp_engine_check_memory(const sp_engine *e, const sp_program *beside, sp_err *err);
/* fill.c: what caches lack of a source, with nothing in flight. `stops`: a signal ends it; *cut: it has. */
int sp_engine_fill(sp_engine *e, sp_node *source, bool stops, bool *cut, sp_err *err);

int sp_engine_plan(sp_engine *e,
                   sp_err *err);     /* programs for training and every evaluation; does nothing if there are */
void sp_engine_unplan(sp_engine *e); /* as before; nothing is in flight */

#endif
