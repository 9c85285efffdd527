/* SPDX-License-Identifier: MIT
 * graph.h - stages wired by ports: what a script describes. engine.h makes it run.
 * Everything is called on one thread. */
#ifndef SP_CORE_GRAPH_H
#define SP_CORE_GRAPH_H

#include "host/env.h"
#include "host/trace.h"
#include "params/params.h"

typedef struct sp_graph sp_graph;
typedef struct sp_node sp_node;

#define SP_PARTS_MAX 64

/* option.c has a row for each that a script gives. */
typedef struct sp_graph_opts {
  const char *device; /* "cuda", "cuda:1"; NULL: "cpu" */
  uint64_t seed;
  int run_ahead;    /* R: metrics come back R steps late; 0 is synchronous */
  int prefetch;     /* steps that a source is ahead of the rest, at least 1; of requests: more batches in memory */
  const char *init; /* NULL or "philox": by seed and name; "torch": as PyTorch's generator seeded with `seed` */
  size_t pinned;    /* most bytes of pinned memory; 0: 1 GiB */
  uint64_t memory;  /* most bytes that the graph may take; 0: those of the device */
  int precision;    /* SP_PRECISION_... of products; the cpu has FP32 only */
  int capture;    /* enum sp_capture; AUTO: LANE on a device with streams of its own if a trace sees calls, else OFF */
  bool checksums; /* sp_result carries a hash of every edge and weight */
  int shards;     /* a training step has so many batches; 0: as many as ranks. see docs/lua.md */
  int parts; /* a stage's backward may be cut into so many calls, at most SP_PARTS_MAX; 0: where ranks add gradients
                     about one a bucket, else 1 */
  const char *comm; /* which communicator moves gradients between ranks; NULL: the device's own */
  uint64_t check;   /* ranks compare their weights behind each so many steps, and at the end of a loop; 0: never */
  size_t bucket;    /* bytes of gradients that ranks add at a time, about; 0: 16 MiB */
  bool wire_bf16;   /* sums of gradients go to other ranks as bfloat16, and are rounded so wherever they are added */
  bool optimizer_shards; /* each rank keeps what the optimizer does of a slice of every weight */
  bool no_factors;       /* gradients of all weights are added, also where rows of all shards are fewer bytes */
  sp_trace *trace;       /* NULL: none; not owned */
} sp_graph_opts;

/* What is recorded once and replayed: nothing, what a lane does between two waits, or all lanes of a tick together. */
typedef enum { SP_CAPTURE_AUTO, SP_CAPTURE_OFF, SP_CAPTURE_LANE, SP_CAPTURE_STEP } sp_capture;
extern const char *const sp_capture_words[]; /* in that order; ended by NULL */

/* Where a frozen stage's outputs are kept, so that it computes each sample once. */
typedef enum { SP_CACHE_OFF, SP_CACHE_DEVICE, SP_CACHE_HOST } sp_cache_at;
extern const char *const sp_cache_words[]; /* in that order; ended by NULL */

typedef struct sp_node_opts {
  const char *name; /* NULL: the stage's name, with _2, _3 ... where taken */
  bool frozen;      /* its weights are not trained and its statistics not updated */
  int64_t batch;    /* sources: N; others take it from their inputs */
  bool no_shuffle;  /* sources: in index order every epoch */
  bool drop_last;   /* sources: a last short batch is left out */
  /* sources whose plan says how often samples are drawn */
  bool no_replacement; /* none comes twice in an epoch */
  uint64_t draws;      /* an epoch; 0: as many as there are samples, or of draws without replacement as can be drawn */
  int precision;    /* SP_PRECISION_... + 1 of its products; 0: the graph's */
  sp_cache_at cache;
  bool on_cpu; /* runs on the processor whatever the graph's device; sources always do where they exist for it only */
  bool recompute; /* its forward runs again before its backward, instead of keeping what that needs in between */
  bool eval_only; /* no step of a training runs it, only evaluations do */
  /* sources of requests, see source/queue.h; 0: the default */
  uint32_t queue;     /* most requests that are not answered; default the larger of 256 and 4 batches */
  size_t queue_bytes; /* most memory for them; default 1 GiB */
  int64_t wait_us, deadline_us;
} sp_node_opts;

int sp_graph_new(sp_graph **g, sp_env *env, const sp_graph_opts *opts, sp_err *err);
void sp_graph_free(sp_graph *g);
const sp_graph_opts *sp_graph_options(const sp_graph *g); /* as they are in effect */
int sp_graph_device_info(const sp_graph *g, sp_device_info *info, sp_err *err);

/* The type that a stage of that name gets in this graph: that for its device, or for the cpu where `on_cpu` is set or
 * there is no other. */
int sp_graph_stage_type(sp_graph *g, const char *stage, bool on_cpu, const sp_stage_type **type, sp_err *err);
/* Adds a stage. `params` is a TABLE or NULL. */
int sp_graph_add(sp_graph *g, const char *stage, const sp_value *params, const sp_node_opts *opts, sp_node **node,
                 sp_err *err);

/* One tensor, or a whole LIST port (index -1), of a node. */
typedef struct sp_ref {
  sp_node *node;
  int port, index;
} sp_ref;

/* Wires `from` to the input port. A LIST port takes several calls, in order; a whole LIST wired to a LIST gives all its
 * tensors. Wiring that closes a cycle is refused, naming the way round. */
int sp_graph_wire(sp_graph *g, sp_node *node, int in_port, sp_ref from, sp_err *err);
/* Plans the node, whose required inputs must be wired, and with that knows its outputs' specs and attributes. Done once
 * after wiring; errors name the edge and both shapes. Does nothing for an OPTIMIZER. */
int sp_graph_plan(sp_graph *g, sp_node *node, sp_err *err);

const char *sp_node_name(const sp_node *node);
const sp_stage_type *sp_node_type(const sp_node *node);
const sp_inst *sp_node_inst(const sp_node *node);
bool sp_node_frozen(const sp_node *node);
sp_cache_at sp_node_cache(const sp_node *node);
int sp_node_precision(const sp_node *node); /* SP_PRECISION_... of its products */
bool sp_node_eval_only(const sp_node *node);
bool sp_node_on_cpu(const sp_node *node); /* its outputs lie on the processor's side of the graph's border */
/* The k-th of the stages whose outputs it reads, each once, in the order of its inputs; NULL: there are no more. */
sp_node *sp_node_producer(const sp_node *node, size_t k);
int sp_node_find_in(const sp_node *node, const char *port,
                    sp_err *err);                                    /* index, or a negative status with nearest name */
const sp_speclist *sp_node_out_specs(const sp_node *node, int port); /* n == 0 before plan */
uint64_t sp_node_length(const sp_node *node);                        /* of a source: samples */
const sp_attr *sp_node_attr(const sp_node *node, const char *name);  /* NULL: none of that name */
int sp_node_item(const sp_node *node, const sp_attr *attr, uint64_t i, char *to, size_t size, sp_err *err);
size_t sp_graph_n_nodes(const sp_graph *g);
sp_node *sp_graph_node(const sp_graph *g, size_t i);
sp_node *sp_graph_find(const sp_graph *g, const char *name); /* NULL: none */
/* After sp_graph_train: the node has trained weights, or statistics that training changes, or depends on one that has,
 * or is the optimizer. The others (sources aside) are the frozen part. */
bool sp_graph_in_trained_part(sp_graph *g, const sp_node *node);
bool sp_node_is_source(const sp_node *node);
bool sp_node_is_shards(const sp_node *node); /* the graph added it itself, for the shards of a step */

/* A step's result has this tensor too, and the answer to a request its sample of it. Before the graph has run; at most
 * SP_QUEUE_MAX_PARTS. */
int sp_graph_result(sp_graph *g, sp_ref from, sp_err *err);
sp_queue *sp_graph_queue(const sp_graph *g); /* of its source of requests; NULL: none */

/* Sets a LIVE parameter. While running it takes effect R + 1 steps after the step whose metrics were seen last, or with
 * the next one where the loop pauses. */
int sp_node_set_live(sp_node *node, const char *param, double value, sp_err *err);
int sp_node_get_live(const sp_node *node, const char *param, double *value, sp_err *err);

typedef struct sp_train_opts {
  const sp_ref *losses; /* ports of SP_STAGE_LOSS stages; their gradients add up */
  size_t n_losses;
  sp_node *optimizer;
  bool optimizer_shards;  /* as the graph's option of that name */
  const sp_value *groups; /* see groups.h; NULL: none */
  int accumulate;         /* the optimizer runs every so many steps, on gradients summed and divided by it; 0 is 1 */
  /* Learning-rate schedule: sets *lr for the update of `step`. Called on the main thread in step order. NULL: the live
   * parameter as it stands. */
  int (*lr)(void *arg, uint64_t step, double *lr, sp_err *err);
  void *lr_arg;
} sp_train_opts;
int sp_graph_train(sp_graph *g, const sp_train_opts *opts, sp_err *err);

/* What of a stage a lane may have: a stage is listed once, or its parts in several lanes. */
enum {
  SP_PART_FORWARD = 1u << 0, /* of an optimizer: its update */
  SP_PART_BACKWARD = 1u << 1,
  SP_PART_COPY = 1u << 2, /* of its outputs to the other side of a border */
  SP_PART_ALL = SP_PART_FORWARD | SP_PART_BACKWARD | SP_PART_COPY
};

#define SP_PRIORITY_COMM 2 /* of lane comm: what other ranks wait for goes before all else, the trained lane too */

/* What a lane is asked to be, from the script to the stream. Ranges: the rows in option.c. */
typedef struct sp_lane_props {
  const char *name;
  int delay;    /* steps behind the newest batch */
  int priority; /* -1, 0, 1; of lane comm SP_PRIORITY_COMM */
  int extra;    /* so many buffers more than the delays ask for, of what its stages give to other lanes */
  int replicas; /* more than 1: so many lanes, of which step t takes t mod replicas. Without training only */
} sp_lane_props;

/* A lane of a strategy. Every stage but the sources and the optimizer must be in exactly one; the optimizer, where not
 * listed, goes to the lane of the last trained stage, and from that lane, listed or not, plain SGD may go to the one in
 * which ranks add gradients up. A source not listed has a lane of its own, `prefetch` steps ahead.
 * A backward that no lane lists goes to its forward's lane; a copy up to the device to the lane of who reads it first,
 * or, of batches, to one of its own, a copy down from it to the stage's. */
typedef struct sp_lane_desc {
  sp_lane_props props;
  sp_node *const *nodes;
  size_t n_nodes;
  const uint8_t *parts; /* [n_nodes] SP_PART bits; NULL: all of each */
} sp_lane_desc;
int sp_graph_strategy(sp_graph *g, const char *name, const sp_lane_desc *lanes, size_t n, sp_err *err);

/* ---- parameters ---- */
sp_store *sp_graph_store(sp_graph *g); /* of all its stages, see params.h */
const sp_weights *sp_node_params(const sp_node *node);
/* sp_store_load of one stage, whose inputs are wired, or (NULL) of all. Before or after the first step. */
int sp_graph_load(sp_graph *g, sp_node *node, const sp_load *from, sp_err *err);

#endif
