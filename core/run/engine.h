/* SPDX-License-Identifier: MIT
 * engine.h - a graph made to run: memory, schedule, proof, the step loop, evaluation. It owns its graph; what Lua and C
 * call. Everything is called on one thread. */
#ifndef SP_CORE_ENGINE_H
#define SP_CORE_ENGINE_H

#include "plan/program.h"
#include "run/result.h"

typedef struct sp_engine sp_engine;

/* With an empty graph, to which stages are added with graph.h. */
int sp_engine_new(sp_engine **engine, sp_env *env, const sp_graph_opts *opts, sp_err *err);
void sp_engine_free(sp_engine *engine); /* drains first; frees the graph too */
sp_graph *sp_engine_graph(const sp_engine *engine);
sp_graph_opts sp_engine_options(const sp_engine *engine); /* as they are in effect */

/* sp_graph_strategy; as long as nothing has run, also where the graph was built for a look at its weights: that is
 * undone, and the weights stay. */
int sp_engine_strategy(sp_engine *engine, const char *name, const sp_lane_desc *lanes, size_t n, sp_err *err);

/* Turns the graph into programs and lists of operations, for training and for each source that an evaluation may read,
 * and proves them; from here on the graph is as it is. Then takes all memory, initialises the weights that were not
 * loaded and prepares every stage. Called by sp_engine_begin where needed. */
int sp_engine_build(sp_engine *engine, sp_err *err);
/* What build() and the first run of each evaluation will allocate, known before they do. */
int sp_engine_memory(sp_engine *engine, sp_mem *mem, sp_err *err);

typedef struct sp_schedule_info {
  const char *strategy;
  size_t n_lanes, n_tasks, n_waits, n_derived, n_ops;
  int depth;
  int n_launches; /* operations of the list that launch graphs, each recorded once for every phase */
  int phases;
  uint64_t launches; /* of recorded graphs, so far */
} sp_schedule_info;
int sp_engine_schedule_info(sp_engine *engine, sp_schedule_info *info, sp_err *err);
/* The training's program, and its list as it is executed; until the graph is built, or gets another strategy. Plans the
 * graph, as sp_engine_memory does. */
int sp_engine_program(sp_engine *engine, const sp_program **prog, const sp_ops **ops, sp_err *err);
/* In words: lanes, the operations of a tick as they are executed, slots per edge; then the same of each evaluation. */
int sp_engine_describe(sp_engine *engine, sp_sb *out, sp_err *err);

/* From now on loops pause where `every` steps, or a multiple of them, are over: between the result of the last of them
 * and the next call of sp_engine_next the weights are those after as many steps, whatever runs ahead otherwise. */
int sp_engine_pause(sp_engine *engine, uint64_t every, sp_err *err);
/* Between two loops: from here on the training is in phase `phase` of its groups (graph/groups.h), which trains other
 * weights: programs are planned and proved anew, of the optimizer all that is kept of weights that were trained before
 * stays, and the others begin with nothing kept. Lanes that were given are those of the phase before: call
 * sp_engine_strategy. Does nothing where it is in that phase. Collective. */
int sp_engine_phase(sp_engine *engine, uint32_t phase, sp_err *err);
/* Begins a loop over the next n steps (n 0: without end). */
int sp_engine_begin(sp_engine *engine, uint64_t n, sp_err *err);
/* The next step's result, in step order, each once; *res NULL when all are done. It blocks. Where a stage fails at some
 * step, those before it come first; then nothing is in flight, and the first failure in serialized order is
 * reported. */
int sp_engine_next(sp_engine *engine, const sp_result **res, sp_err *err);
/* Ends the loop early: steps that were begun before the last result was seen plus R complete, no others begin. Their
 * results are dropped, and so is what fails in a step behind them. Does nothing outside a loop. */
int sp_engine_stop(sp_engine *engine, sp_err *err);
/* The last loop has ended, or will, before its last step: by sp_engine_stop or sp_engine_cut. */
bool sp_engine_was_cut(const sp_engine *engine);
/* No step begins any more; those that have begun, up to the boundary, still come, and are the loop's last. */
void sp_engine_cut(sp_engine *engine);
/* Asked while a loop waits for requests: true ends it, as if all who submit had gone. NULL: never. */
void sp_engine_stopped(sp_engine *engine, bool (*stopped)(void));
/* Of a graph that several ranks train: what this rank asks the others with each step, as bits; all find those of all in
 * sp_result.asked. */
void sp_engine_ask(sp_engine *engine, uint32_t (*asks)(void *arg), void *arg);
bool sp_engine_is_shared(const sp_engine *engine); /* it is trained by several ranks, and has been planned */
/* Waits until nothing is in flight. */
int sp_engine_drain(sp_engine *engine, sp_err *err);
uint64_t sp_engine_step(const sp_engine *engine); /* the next step that the loop begins with */
/* The steps before this one, and no others, are in the weights once the loop is drained: R + 1 behind the one whose
 * result was seen last, or where the loop ends or pauses. */
uint64_t sp_engine_boundary(const sp_engine *engine);
int sp_engine_seek(sp_engine *engine, uint64_t step, sp_err *err); /* outside a loop: continue a run at `step` */

/* Steps in one epoch of the training source; 0 where the graph has no source. Plans the graph,
 * as sp_engine_memory does. */
int sp_engine_epoch_steps(sp_engine *engine, uint64_t *steps, sp_err *err);

/* Runs every forward stage once over all of `source` (one epoch, in order, training = 0), in the place of the training
 * source: their outputs must have the same names, types and shapes. May be called within a loop, between two next()s.
 * `each` sees every batch. Where the optimizer keeps averages of the weights, these are in their place meanwhile. */
int sp_engine_evaluate(sp_engine *engine, sp_node *source, int (*each)(void *arg, const sp_result *res, sp_err *err),
                       void *arg, sp_err *err);

/* graph.h's functions of weights, with nothing in flight. save and weight build the graph. */
int sp_engine_load(sp_engine *engine, sp_node *node, const sp_load *from, sp_err *err); /* node NULL: all */
int sp_engine_save(sp_engine *engine, const char *path, unsigned what, sp_err *err);
/* sp_graph_snapshot of the weights after a drain; not after a failure. */
int sp_engine_snapshot(sp_engine *engine, sp_snapshot **out, unsigned what, const char *path, const sp_meta *meta,
                       size_t n_meta, sp_err *err);
int sp_engine_weight(sp_engine *engine, sp_node *node, const char *name, sp_spec *spec, void *dst, size_t bytes,
                     sp_err *err);

/* How many allocations the core has made for steps since build; constant after warm-up. */
uint64_t sp_engine_allocations(const sp_engine *engine);

#endif
