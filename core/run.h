/* SPDX-License-Identifier: MIT
 * run.h - a graph made to run: memory, schedule, proof, the step loop. */
#ifndef SP_CORE_RUN_H
#define SP_CORE_RUN_H

#include "graph.h"

typedef struct sp_metric {
  const char
      *name; /* the port's name, or NODE.PORT where two nodes have one of that name; [i] behind it in a longer list */
  const char *node, *port;
  sp_spec spec;     /* row-major */
  const void *data; /* host memory, valid until the next call */
} sp_metric;

typedef struct sp_hash {
  const char *name; /* "encoder.features", "encoder.maps[2]", "decoder.0.weight" */
  uint64_t hash;
} sp_hash;

typedef struct sp_result {
  uint64_t step, epoch;
  uint32_t n;   /* samples in the step */
  bool updated; /* the optimizer ran */
  double lr;    /* of the last update up to that step, at first the optimizer's own; NaN without an optimizer */
  double time;  /* sp_now() when the host saw it complete */
  const sp_metric *metrics;
  size_t n_metrics;
  const sp_hash *hashes; /* with opts.checksums, in a fixed order */
  size_t n_hashes;
} sp_result;

/* Plans all memory, derives and proves the schedule, initialises the weights that were not loaded, prepares every stage.
 * Called by sp_graph_begin where needed. */
int sp_graph_build(sp_graph *g, sp_err *err);

typedef struct sp_mem {
  uint64_t weights, gradients, optimizer, activations, saved, scratch, total; /* bytes */
} sp_mem;
/* What build() will allocate, known before it does. */
int sp_graph_memory(sp_graph *g, sp_mem *mem, sp_err *err);

typedef struct sp_schedule_info {
  const char *strategy;
  size_t n_lanes, n_tasks, n_waits, n_derived;
  int depth;
  size_t n_segments; /* after build: what is recorded into graphs, each once for every phase */
  int phases;
  uint64_t launches; /* of recorded graphs, so far */
} sp_schedule_info;
int sp_graph_schedule_info(sp_graph *g, sp_schedule_info *info, sp_err *err);
/* The schedule in words, one line a task: lane, delay, waits, records; then slots per edge. */
int sp_graph_describe(sp_graph *g, sp_sb *out, sp_err *err);

/* Begins a loop over the next n steps (n 0: without end). */
int sp_graph_begin(sp_graph *g, uint64_t n, sp_err *err);
/* The next step's result, in step order, each once; *res NULL when all are done. It blocks. On failure the graph has
 * stopped: nothing is in flight, and the first failure is reported. */
int sp_graph_next(sp_graph *g, const sp_result **res, sp_err *err);
/* Ends the loop early: steps that were begun before the last result was seen plus R complete, no others begin. Their
 * results are dropped. Does nothing outside a loop. */
int sp_graph_stop(sp_graph *g, sp_err *err);
/* Waits until nothing is in flight. */
int sp_graph_drain(sp_graph *g, sp_err *err);
uint64_t sp_graph_step(const sp_graph *g);                  /* the next step that the loop begins with */
int sp_graph_seek(sp_graph *g, uint64_t step, sp_err *err); /* outside a loop: continue a run at `step` */

/* Steps in one epoch of the training source; 0 where the graph has no source. Plans the graph, as sp_graph_memory does. */
int sp_graph_epoch_steps(sp_graph *g, uint64_t *steps, sp_err *err);

/* Runs every forward stage once over all of `source` (one epoch, in order, training = 0), in the place of the training
 * source: their outputs must have the same names, types and shapes. May be called within a loop, between two next()s.
 * `each` sees every batch. */
int sp_graph_evaluate(sp_graph *g, sp_node *source, int (*each)(void *arg, const sp_result *res, sp_err *err),
                      void *arg, sp_err *err);

/* How many allocations the core has made for steps since build; constant after warm-up. */
uint64_t sp_graph_allocations(const sp_graph *g);

#endif
