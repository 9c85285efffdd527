/* SPDX-License-Identifier: MIT
 * planner.h - what the files that make a program know while they do; it is gone when they are done. */
#ifndef SP_CORE_PLANNER_H
#define SP_CORE_PLANNER_H

#include "params/params.h"
#include "plan/program.h"

/* Whose lane: of a stage's forward (of an optimizer: its update), its backward, the copy of its outputs. */
enum { SP_LANE_FORWARD, SP_LANE_BACKWARD, SP_LANE_COPY, SP_LANE_PARTS };

/* What ends a step, as soon as it has come from all ranks: apply() of a part of the node, or (NULL) what updates that
 * bucket. */
typedef struct sp_end {
  sp_node *node;
  uint32_t part;
} sp_end;

typedef struct sp_planner {
  sp_program *p;
  const sp_strategy *strategy; /* NULL: a program that needs none */
  size_t cap_tasks, cap_bufs, cap_packs, cap_metrics;
  int (*lane)[SP_LANE_PARTS];         /* [node index], -1: none yet */
  int **act, **grad;                  /* [node index][flat output tensor] -> buffer, -1: none */
  int **twin;                         /* as act: its copy on the other side of the border */
  int **dweight;                      /* [node index][weight] -> resource, -1: no gradient is kept */
  int *saved, *self, *weight, *state; /* [node index] -> resource, -1: none; of weight the first:
                                         see sp_planner_weight() */
  int *factor;                        /* the same: see sp_planner_factor() */
  int *carry;       /* the same: scratch that is kept from one part to the next, -1: backward is one */
  int sums;         /* what all ranks find in a survey; -1: there is none */
  int totals;       /* of the losses of a step's shards, of all ranks */
  int pieces, wire; /* what an all-to-all brings, and takes where gradients go as bfloat16 */
  bool *sent;       /* [bucket] its tasks are made */
  uint32_t ended;   /* buckets, the first ones, that are among the ends */
  uint32_t *made;   /* [node index] parts of its backward that are made */
  int copy_lane;    /* batches on their way to the device; -1: in the lane of who reads them */
  int comm_lane;    /* all that moves between ranks, and adds it up; -1: there is one rank */
  int lag;          /* steps that the slowest lane runs behind the trained part */
  bool *busy;       /* [lane] has tasks of stages */
  int every, phase; /* of tasks that are made now: those of one replica of a lane */
  uint32_t part;    /* of a call of a backward, an apply() or an update that is made now */
  uint32_t updates; /* calls that a step's update is made of */
  sp_end *ends;     /* in the order in which what they need is there */
  size_t n_ends, cap_ends;
  size_t before; /* the task of the part before it */
} sp_planner;

/* query.c */
/* Whose buffers a wire reads: the stand-in's for its source. */
sp_node *sp_program_producer(const sp_program *p, sp_node *n);
bool sp_call_needs_block(const sp_program *p, const sp_node *n, sp_task_kind kind); /* it reads its lane's step block */
int sp_pow2(int n); /* the least power of two that is not below n */
char *sp_text(const char *fmt, ...) SP_PRINTF(1, 2);
bool sp_port_small(const sp_port *port); /* metric or status */

/* buffers.c */
int sp_planner_buf(sp_planner *w, char *name, size_t bytes, sp_buf_kind kind, int slots, int group, int *out,
                   sp_err *err);
/* The turn at weights of a part: those of apply(), or all others. */
int sp_planner_weight(const sp_planner *w, const sp_weights *stage, uint32_t part, bool product);
int sp_planner_touch_weight(const sp_planner *w, sp_task *t, const sp_weight_ref *r, int mode, sp_err *err);
/* Of factor i: the rows of this rank, or those of all, of which the communicator brings the others. -1:
 * there is one rank. */
int sp_planner_factor(const sp_planner *w, const sp_node *n, size_t i, bool all);
int sp_planner_resources(sp_planner *w, sp_node *n, sp_err *err);
int sp_planner_grad_buf(sp_planner *w, sp_ref r, int *out, sp_err *err); /* of an output to which a gradient is sent */

/* tasks.c */
int sp_planner_task(sp_planner *w, sp_task_kind kind, sp_node *node, char *name, int lane, sp_task **out, sp_err *err);
int sp_planner_call(sp_planner *w, sp_task_kind kind, sp_node *n, sp_task **out, sp_err *err); /* in its lane */
char *sp_planner_call_name(const sp_planner *w, const sp_node *n, const char *what);
/* What the call is told lies in its lane's block, where that has one. */
int sp_planner_tell(sp_planner *w, sp_task *t, sp_err *err);
void sp_planner_at_end(const sp_planner *w, sp_task *t); /* once a step, behind its last pass */
int sp_task_access(sp_task *task, int resource, int mode, sp_err *err);
/* One tensor of the call; buf -1: `data` stays, as it is for weights, or NULL. */
int sp_task_tensor(sp_task *t, const sp_spec *spec, void *data, int buf, bool batch, sp_err *err);
void sp_task_begin_list(sp_task *t, size_t list, uint32_t n); /* the n tensors that come next */
void sp_task_no_weights(sp_task *t);                          /* no tensor comes behind those of the ports */
int sp_task_totals(sp_task *t, size_t list, int totals, int shards, sp_err *err); /* of so many shards, from a buffer */
int sp_planner_inputs(sp_planner *w, sp_task *t, sp_err *err);
int sp_planner_outputs(sp_planner *w, sp_task *t, unsigned from_port, int mode, sp_err *err);
int sp_planner_output_gradients(sp_planner *w, sp_task *t, sp_err *err); /* empty but in a backward */
/* The instance and its saved values, which the call reads or writes. */
int sp_planner_use(sp_planner *w, sp_task *t, int saved, sp_err *err);

/* passes.c. `written` [buffer]: some task made so far writes that gradient. */
int sp_planner_forward(sp_planner *w, sp_node *n, bool *written, sp_err *err);
int sp_planner_backward(sp_planner *w, sp_node *n, bool *written, sp_err *err);
int sp_planner_apply(sp_planner *w, sp_node *n, uint32_t part, sp_err *err);

/* update.c */
int sp_planner_keep(sp_planner *w, sp_err *err);                           /* before a shard's pass */
int sp_planner_count(sp_planner *w, sp_err *err);                          /* behind its loss */
int sp_planner_sum(sp_planner *w, const sp_bucket *b, sp_err *err);        /* behind its gradients; NULL: all */
int sp_planner_scale(sp_planner *w, sp_err *err);                          /* what apply() multiplies by */
int sp_planner_end(sp_planner *w, sp_node *n, uint32_t part, sp_err *err); /* it is the next of w->ends */
int sp_planner_update(sp_planner *w, uint32_t part, sp_err *err);          /* of w->updates */
int sp_planner_survey_call(sp_planner *w, int sums, sp_err *err);
int sp_planner_look(sp_planner *w, sp_err *err); /* at the trained weights, for their checksums */
/* The task reads or writes the gradient of the weight, where one is kept. */
int sp_planner_touch_gradient(const sp_planner *w, sp_task *t, const sp_weight_ref *r, int mode, sp_err *err);

/* reduce.c: what ranks give to each other in a step's last pass: behind its forward, first rows of factors, then the
 * totals of losses; behind a part of a backward; and what is left behind all */
int sp_planner_reduce_rows(sp_planner *w, sp_err *err);
int sp_planner_reduce(sp_planner *w, sp_err *err);
int sp_planner_reduce_part(sp_planner *w, const sp_node *n, sp_err *err);
int sp_planner_reduce_rest(sp_planner *w, sp_err *err);
/* Where ranks have slices: what they tell each other of their gradients before the update,
 * and their weights behind it. */
int sp_planner_survey(sp_planner *w, sp_err *err);
int sp_planner_spread(sp_planner *w, sp_err *err);

/* ends.c */
int sp_planner_ends(sp_planner *w, bool updates, sp_err *err); /* all of w->ends but the last call of the update */

/* lanes.c */
int sp_planner_lanes(sp_planner *w, sp_err *err);
int sp_planner_replicas(const sp_planner *w, const sp_node *n); /* of its forward's lane, at least 1 */

/* border.c: what lies between the cpu's memory and the main device's. None of it does anything without a border. */
int sp_border_twins(sp_planner *w, sp_node *node, sp_err *err); /* after the node's own buffers */
int sp_border_metrics(sp_planner *w, sp_err *err);
int sp_border_begin(sp_planner *w, sp_err *err);                /* tasks before all others */
int sp_border_after(sp_planner *w, sp_node *node, sp_err *err); /* tasks behind a node's forward */
int sp_border_end(sp_planner *w, sp_err *err);                  /* tasks after all of a step */
int sp_border_check(const sp_program *p, sp_err *err);          /* of the derived schedule */

#endif
