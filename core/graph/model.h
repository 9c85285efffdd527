/* SPDX-License-Identifier: MIT
 * model.h - what a graph is made of, for the files that complete it and for those that plan and run it. */
#ifndef SP_CORE_GRAPH_IMPL_H
#define SP_CORE_GRAPH_IMPL_H

#include <spcore/ext/precision.h>
#include <spcore/ext/ranges.h>
#include <spcore/ext/times.h>

#include "graph/graph.h"
#include "graph/groups.h"
#include "device/place.h"
#include "params/params.h"

typedef struct sp_refs {
  sp_ref *v;
  size_t n, cap;
} sp_refs;

/* What a stage has given for the samples of one source: of each output tensor that is kept the rows, one a sample. */
typedef struct sp_table {
  const sp_node *source;
  void **rows; /* [flat output tensor] NULL: it is not kept */
  bool filled; /* with what the weights that are there now make */
} sp_table;

/* Instead of being called, a stage is read from a table: by a stage that the core calls in its place, whose outputs are
 * the node's and whose weights the rows. */
typedef struct sp_cache {
  sp_inst *get, *put;
  bool *kept; /* [flat output tensor] somebody reads it */
  sp_table *tables;
  size_t n, cap;
} sp_cache;

/* Who is trained, where gradients flow, what caches need: all of it follows from the wires, in sp_graph_analyse and
 * sp_graph_plan_caches. */
typedef struct sp_node_flow {
  bool needs_grad; /* trained, or depends on a trained node through gradient ports */
  bool backward;   /* has a backward task */
  bool in_trained; /* see sp_graph_in_trained_part */
  bool fills;      /* a cache is filled with what it, or a stage behind it, gives */
  bool spared;     /* nobody needs it but what reads a cache */
} sp_node_flow;

struct sp_node {
  sp_graph *g;
  size_t index; /* in order of construction */
  char *name;
  sp_inst *inst;
  uint64_t key; /* of its random numbers */
  bool frozen, source, optimizer, loss;
  bool shards; /* one of sp_shard_stages */
  bool on_cpu; /* in a graph of another device: sources, and what was put there or exists for the cpu only */
  sp_node_opts opts;
  sp_precision precision;
  unsigned n_in, n_out;
  sp_refs *in; /* per input port: one ref per tensor */
  bool planned;
  bool batched; /* shape[0] is N, which comes from the source */
  sp_speclist *in_specs, *out_specs;
  size_t scratch, saved;
  sp_weights params; /* index, name and place are the stage's */
  uint32_t n_parts;  /* calls of its backward in a step */
  sp_attr *attrs;
  size_t n_attrs;
  uint64_t length; /* of a source: samples */
  float *draw;     /* [length] how often steps draw each; NULL: once an epoch */
  bool told;       /* that `recompute` changes nothing */
  bool stepless;   /* plan() said that calls read neither step nor ids */
  float live[SP_MAX_LIVE];
  int n_live;
  sp_node_flow flow;
  sp_cache *cache; /* NULL: it is called in every step; see cache.c */
};

typedef struct sp_strategy {
  char *name;
  sp_lane_desc *lanes; /* copies */
  size_t n;
} sp_strategy;

/* What sp_graph_train was given. */
typedef struct sp_training {
  bool on; /* the graph is trained */
  sp_refs losses;
  sp_node *optimizer;
  sp_groups groups;
  sp_node *source; /* of the steps; known once stages are planned, with or without training */
  int accumulate;  /* passes of an update: of as many steps, or the shards of one */
  bool totals;     /* gradients of passes are added and then divided by all that the loss is a mean over */
  int micro;       /* passes of a step: its shards on this rank, 1 without training */
  int (*lr)(void *arg, uint64_t step, double *lr, sp_err *err);
  void *lr_arg;
} sp_training;

/* The stages that the graph adds itself where a step has several shards, of this rank or of others, or an update has
 * several steps. */
typedef struct sp_shard_stages {
  bool on;             /* a step has shards */
  sp_node *keep, *sum; /* before and behind a pass; with accumulate: the sum is behind the last, and keep is NULL */
  sp_node *count;      /* behind the loss */
  sp_node *tree;       /* adds what the ranks have; NULL: there is one rank */
  sp_node *wire;       /* sums of gradients as bfloat16; NULL: as they are */
  sp_node *scale;      /* of what apply() makes */
} sp_shard_stages;

struct sp_graph {
  sp_env *env;
  sp_graph_opts opts;
  char *device, *init, *comm; /* what opts points to */
  sp_stage_host host;         /* of stages on main; of calls that only submit no time is taken */
  sp_stage_host cpu_host;     /* of stages that are on_cpu */
  sp_place main;              /* the device of the graph */
  sp_place cpu;               /* of the stages that are on_cpu; the same as main where that is host memory */
  int index;                  /* of main among its devices */
  bool border;                /* main and cpu are two: copies lie between */
  const char *stages;         /* device name of the stage types on main */
  sp_precision precision;
  int capture_asked; /* opts.capture as it was given */
  bool sync;         /* SPCORE_SYNC: wait behind every call, so that a failure names the call */
  sp_node **nodes;
  size_t n_nodes, cap_nodes;
  sp_node **topo; /* n_nodes, producers first; by index where free */
  bool planned;   /* all stages, since the last wire */
  sp_store store; /* the parameters of all stages */
  sp_training train;
  sp_shard_stages shards;
  sp_refs results;
  sp_queue *queue;       /* of the source of requests, NULL: there is none */
  sp_strategy *strategy; /* of the programs that the loop and evaluations run; NULL: not given yet */
  bool default_lanes;    /* it is the one that follows from no strategy */
  size_t n_programs;     /* made of it, and not freed: while there are any, no stage, wire or strategy may change */
};

/* query.c */
bool sp_graph_plays_gpu(const sp_graph *g); /* its stages are the processor's, though it is no host to the core */
bool sp_graph_is_result(const sp_graph *g, const sp_node *node, int port, int index);
const sp_port *sp_node_in_port(const sp_node *node, unsigned i);
const sp_port *sp_node_out_port(const sp_node *node, unsigned i);
/* The tensors of all outputs in one row: which one, and how many. */
size_t sp_node_flat(const sp_node *node, int port, int index);
size_t sp_node_n_flat(const sp_node *node);
sp_place *sp_node_place(const sp_node *node);
bool sp_node_batch_out(const sp_node *node, int port, const sp_spec *s); /* shape[0] of this output is N */
bool sp_node_changes(const sp_node *node);                           /* training changes its weights or statistics */
bool sp_node_trained_on(const sp_node *node);                        /* it is one of the losses that are minimised */
bool sp_ref_grad(const sp_node *consumer, int in_port, sp_ref from); /* a gradient may flow back along this edge */
/* What sees the trained weights, not what is wired: the optimizer, and what adds shards. */
static inline bool sp_node_apart(const sp_node *node) { return node->optimizer || node->shards; }
/* Passes that the host is behind when it collects one. */
static inline int sp_graph_run_ahead(const sp_graph *g) { return g->opts.run_ahead * g->train.micro; }

/* graph.c */
/* Device memory; counted. */
void *sp_graph_alloc(sp_graph *g, const sp_place *place, size_t bytes, const char *what, sp_err *err);
void *sp_graph_zalloc(sp_graph *g, size_t n, size_t size, const char *what, sp_err *err); /* host memory; counted */
const sp_times *sp_graph_times(const sp_graph *g); /* of calls in its device's graphs; NULL: it has none */
bool sp_graph_times_calls(const sp_graph *g); /* calls of the main device are over when they return, in a graph too */

/* node.c */
/* As sp_graph_add, for stages that scripts cannot add. */
int sp_graph_add_own(sp_graph *g, const char *stage, const sp_value *params, const sp_node_opts *opts, sp_node **out,
                     sp_err *err);
void sp_node_free(sp_node *node);

/* plan.c: one stage */
int sp_node_take_inputs(sp_node *node, sp_err *err); /* specs of what comes in, as those before it say now */
int sp_node_replan(sp_node *node, bool training, sp_err *err);
int sp_node_ask_plan(sp_node *node, sp_plan *p, sp_err *err); /* with what is set in p already; nothing of it is kept */

/* analyse.c */
int sp_graph_sort(sp_graph *g, sp_err *err); /* fills topo */
int sp_graph_analyse(sp_graph *g, sp_err *err);

/* From here on the training is in that phase; stages are to be planned anew. */
void sp_graph_set_phase(sp_graph *g, uint32_t phase);

/* optimizer.c */
int sp_graph_plan_optimizer(sp_graph *g, sp_err *err);
int sp_graph_plan_shards(sp_graph *g, sp_err *err); /* behind the optimizer; nothing where a step is one */
/* sp_store_reduce, and the plan of an optimizer that has slices. Collective. */
int sp_graph_reduce(sp_graph *g, sp_err *err);

/* complete.c: the whole graph */
int sp_graph_plan_stages(sp_graph *g, sp_err *err); /* all of them, and the optimizer */
int sp_graph_complete(sp_graph *g, sp_err *err);    /* and a strategy, where none was given */

/* strategy.c: lanes that are checked against the graph, of which it changes nothing else than what follows from its
 * wires */
int sp_strategy_new(sp_strategy **out, sp_graph *g, const char *name, const sp_lane_desc *lanes, size_t n, sp_err *err);
void sp_strategy_free(sp_strategy *strategy);

/* cache.c */
int sp_cache_new(sp_node *node, sp_err *err); /* as opts.cache says; the node has its instance */
void sp_cache_free(sp_node *node);
int sp_graph_plan_caches(sp_graph *g, sp_err *err); /* behind the plans of all stages */
/* As a result, or by a stage that runs; filling: by any stage, so that a source meets then what it cannot read, and has
 * the same samples in its place as without a cache. */
bool sp_ref_is_read(const sp_graph *g, sp_ref r, bool filling);
sp_spec sp_table_spec(const sp_node *node, size_t flat, const sp_node *source); /* of the rows */
uint64_t sp_cache_bytes(const sp_node *node, const sp_node *source);
/* The node's table of a source, with its memory; NULL: there is none. */
sp_table *sp_cache_table(sp_node *node, const sp_node *source, sp_err *err);
bool sp_graph_filled(const sp_graph *g, const sp_node *source);
void sp_graph_set_filled(sp_graph *g, const sp_node *source);
void sp_graph_drop_filled(sp_graph *g, const sp_node *node); /* whose weights have changed; NULL: all */

#endif
