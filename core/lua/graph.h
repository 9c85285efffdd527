/* SPDX-License-Identifier: MIT
 * graph.h - what the bindings of graph, node and step loop share. */
#ifndef SP_CORE_LUA_GRAPH_H
#define SP_CORE_LUA_GRAPH_H

#include <stdio.h>

#include "lua/state.h"
#include "run/engine.h"

#define SP_LUA_GRAPH "spcore.graph"
#define SP_LUA_NODE "spcore.node"
#define SP_LUA_REF "spcore.ref"

/* A graph userdata. User value 1: its nodes by address, so that a node is one Lua object. User value 2: the
 * learning-rate function. User value 3: the error that function raised. User value 4: answers to requests. */
typedef struct sp_lua_graph {
  sp_engine *e;    /* NULL: closed */
  sp_graph *g;     /* its graph */
  sp_trace *trace; /* NULL: none */
  bool trace_file; /* it is to be written */
  lua_State *L;    /* who runs the loop just now: the learning-rate function is called there */
  int self;        /* stack index of the userdata in L, then */
  bool busy;       /* within the core, so a callback must not call it */
  bool looping;    /* between begin and the end of the steps */
  bool held;       /* a signal does not end the steps: the script sees to it */
  bool lr_raised;
  const sp_node *by_function; /* the optimizer whose learning rate is a function's; NULL: none is */
  uint32_t asks, told;        /* see g:ask */
  bool raw_results;           /* see g:raw_results */
  bool attached;              /* the script is going to submit requests */
  bool answered;              /* answers have come that were not taken yet; the list is user value 4 */
  bool answer_lost;           /* there was no memory for one */
  FILE *sums;                 /* checksums.jsonl, or NULL */
  char *sums_path;
} sp_lua_graph;

extern bool sp_lua_goes_on; /* an evaluation is under way that no signal ends */

/* A node userdata; user value 1: its graph's userdata. */
typedef struct sp_lua_node {
  sp_node *node;
} sp_lua_node;

/* An output of a node; user value 1: the node's userdata. */
typedef struct sp_lua_ref {
  sp_ref ref;
} sp_lua_ref;

/* The graph at `idx`, open and not busy; raises otherwise. */
sp_lua_graph *sp_lua_check_graph(lua_State *L, int idx);
/* Takes the address for any graph userdata; NULL: it is none. */
sp_lua_graph *sp_lua_test_graph(lua_State *L, int idx);
/* The node at `idx`, of graph `lg` (NULL: any open one); raises otherwise. */
sp_node *sp_lua_check_node(lua_State *L, int idx, const sp_lua_graph *lg);
/* An output, or a node that has exactly one that is neither metric nor status. */
sp_ref sp_lua_check_ref(lua_State *L, int idx, const sp_lua_graph *lg);
/* Pushes the object of a node of the graph at `graph_idx`. */
void sp_lua_push_node(lua_State *L, int graph_idx, sp_node *node);
const char *sp_lua_kind(lua_State *L, int idx); /* "node", "output" or NULL */
int sp_lua_graph_new(lua_State *L);             /* graph{ options } -> graph */
void sp_lua_open_graph(lua_State *L);           /* metatables of graphs, nodes and outputs */
void sp_lua_open_node(lua_State *L);

/* lanes.c: the list of lanes at `idx`, in memory that stays on the stack above it, which it becomes the top of. */
sp_lane_desc *sp_lua_check_lanes(lua_State *L, const sp_lua_graph *lg, const char *name, int idx, size_t *n);

/* trial.c: functions of the graph object, ended by NULL */
extern const luaL_Reg sp_lua_trial_functions[];
/* steps.c: functions of the graph object, ended by NULL */
extern const luaL_Reg sp_lua_step_functions[];
/* requests.c: further ones */
extern const luaL_Reg sp_lua_request_functions[];
/* Pushes a tensor in host memory as nested tables, a scalar as a number; raw: as a string of its row-major elements. */
void sp_lua_push_tensor(lua_State *L, const sp_spec *spec, const void *data, bool raw);
/* saver.c */
int sp_lua_snapshot(lua_State *L);
int sp_lua_examine(lua_State *L);
/* schedule.c: g:plan_info() -> the training's program and its list in a table */
int sp_lua_plan_info(lua_State *L);
/* The callback behind sp_train_opts.lr; arg is the sp_lua_graph. */
int sp_lua_lr(void *arg, uint64_t step, double *lr, sp_err *err);
void sp_lua_close_sums(sp_lua_graph *lg);

#endif
