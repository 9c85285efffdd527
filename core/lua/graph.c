/* SPDX-License-Identifier: MIT
 * graph.c - the graph object, as thin as the C interface; scripts/spcore/graph.lua is its friendly half. */
#include "lua/graph.h"

#include <spcore/ext/precision.h>

#include <stdlib.h>
#include <string.h>

#include "graph/option.h"
#include "lua/signals.h"
#include "lua/value.h"

#define MAX_LOSSES 16
#define MAX_SLICES 100000     /* of a trace's file: about 30 MB */
#define MAX_TIMINGS (1 << 20) /* calls behind timings() without one */

/* ---- the object -------------------------------------------------------------------------------------------------- */

sp_lua_graph *sp_lua_test_graph(lua_State *L, int idx) { return luaL_testudata(L, idx, SP_LUA_GRAPH); }

sp_lua_graph *sp_lua_check_graph(lua_State *L, int idx) {
  sp_lua_graph *lg = sp_lua_test_graph(L, idx);
  if (!lg) sp_lua_fail(L, "a graph is wanted here, got a %s", luaL_typename(L, idx));
  if (!lg->g) sp_lua_fail(L, "the graph is closed");
  if (lg->busy) sp_lua_fail(L, "the graph is in the middle of a step: a learning-rate function cannot use it");
  return lg;
}

/* The trace is written when the graph is closed: only then is nothing in flight for certain. Where nothing ran, an
 * older file stays. A failure there is no error of the script, which goes on to save what it has,
 * but one of the program in the end. */
static void end_trace(lua_State *L, sp_lua_graph *lg) {
  sp_err err;
  if (!lg->trace) return; /* close() and the collector both come here */
  if (lg->trace_file && sp_trace_begun(lg->trace) && sp_trace_write(lg->trace, &err)) {
    sp_log(SP_LOG_ERROR, "%s", err.msg);
    sp_lua_of(L)->lost = true;
  }
  sp_trace_free(lg->trace);
  lg->trace = NULL;
}

bool sp_lua_goes_on;

static bool stopped(void) { return !sp_lua_goes_on && sp_lua_interrupted() != 0; }

static uint32_t asks(void *arg) {
  const sp_lua_graph *lg = arg;
  return sp_lua_caught() | lg->asks << 8;
}

/* graph{ device =, precision =, trace = file or "", trace_steps =, timing =,
 * and all that has a row in graph/option.c } */
int sp_lua_graph_new(lua_State *L) {
  sp_err err;
  sp_graph_opts o = {
      .device = sp_lua_opt_str(L, 1, "device", NULL),
      .precision = sp_lua_opt_choice(L, 1, "precision", sp_lua_precisions, SP_PRECISION_FP32),
  };
  sp_lua_read_rows(L, 1, sp_graph_rows, &o);
  const char *trace = sp_lua_opt_str(L, 1, "trace", "");
  uint64_t steps = (uint64_t)sp_lua_opt_int(L, 1, "trace_steps", 100, 1, 1000000);
  bool timing = sp_lua_opt_bool(L, 1, "timing", false);
  sp_lua_graph *lg = lua_newuserdatauv(L, sizeof *lg, 4);
  memset(lg, 0, sizeof *lg);
  luaL_setmetatable(L, SP_LUA_GRAPH);
  lua_newtable(L);
  lua_setiuservalue(L, -2, 1);
  lua_newtable(L);
  lua_setiuservalue(L, -2, 4);
  lg->trace_file = *trace != 0;
  if ((*trace || timing) &&
      sp_trace_new(&lg->trace, *trace ? trace : NULL, *trace ? steps : 0, *trace ? MAX_SLICES : MAX_TIMINGS, &err))
    return sp_lua_raise(L, &err);
  o.trace = lg->trace;
  if (sp_engine_new(&lg->e, sp_lua_of(L)->env, &o, &err)) return sp_lua_raise(L, &err);
  lg->g = sp_engine_graph(lg->e);
  sp_engine_stopped(lg->e, stopped);
  sp_engine_ask(lg->e, asks, lg);
  return 1;
}

/* g:outside() -> the first stage that need not give the graph anything, so that what it does is outside of it; nil:
 * there is none */
static int graph_outside(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  for (size_t i = 0; i < sp_graph_n_nodes(lg->g); i++) {
    const sp_port *p = sp_node_type(sp_graph_node(lg->g, i))->outputs;
    while (p && p->name && (p->flags & SP_PORT_OPTIONAL)) p++;
    const sp_node *n = sp_graph_node(lg->g, i);
    if ((p && p->name) || sp_node_is_shards(n) || sp_node_is_source(n)) continue;
    sp_lua_push_node(L, 1, sp_graph_node(lg->g, i));
    return 1;
  }
  return 0;
}

/* g:plugins() -> the files that its stages and its device came from, in order, each once */
static int graph_plugins(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lua_newtable(L); /* list */
  lua_newtable(L); /* seen */
  for (size_t i = 0; i < sp_graph_n_nodes(lg->g); i++) {
    const sp_plugin_file *file = sp_node_inst(sp_graph_node(lg->g, i))->file;
    if (!file || lua_getfield(L, -1, file->path) != LUA_TNIL) {
      lua_settop(L, 3);
      continue;
    }
    lua_settop(L, 3);
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, file->path);
    lua_pushstring(L, file->path);
    lua_rawseti(L, -3, (lua_Integer)lua_rawlen(L, -3) + 1);
  }
  lua_settop(L, 2);
  return 1;
}

/* g:options() -> { device =, precision =, capture =, model =, detail = of the device,
 * memory = bytes of it } as they are in effect */
static int graph_options(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_graph_opts o = sp_engine_options(lg->e);
  sp_device_info info;
  sp_err err;
  if (sp_graph_device_info(lg->g, &info, &err)) return sp_lua_raise(L, &err);
  lua_createtable(L, 0, 6);
  sp_lua_set_str(L, "model", info.name);
  sp_lua_set_str(L, "detail", info.detail);
  sp_lua_set_int(L, "memory", (lua_Integer)info.memory);
  lua_pushstring(L, o.device);
  lua_setfield(L, -2, "device");
  lua_pushstring(L, sp_lua_precisions[o.precision]);
  lua_setfield(L, -2, "precision");
  lua_pushstring(L, sp_capture_words[o.capture]);
  lua_setfield(L, -2, "capture");
  return 1;
}

static int graph_close(lua_State *L) {
  sp_lua_graph *lg = sp_lua_test_graph(L, 1);
  if (!lg) return 0;
  if (!lg->g) {
    end_trace(L, lg);
    return 0;
  }
  if (lg->busy) return sp_lua_fail(L, "the graph is in the middle of a step: a learning-rate function cannot close it");
  /* What is in flight may ask for a learning rate. Other ranks would not come along to such an end. */
  if (lg->looping && !sp_engine_is_shared(lg->e)) {
    sp_err err;
    lg->L = L;
    lg->self = 1;
    sp_engine_stop(lg->e, &err);
    lg->L = NULL;
  }
  /* Behind an error what closes before it, a run, has saved what it has. The communicator's end may wait for the other
   * ranks, as NCCL's ncclCommDestroy does, which wait for what this one will never do. */
  if (sp_engine_is_shared(lg->e)) sp_lua_tell_ranks(sp_lua_of(L));
  sp_engine_free(lg->e);
  lg->e = NULL;
  lg->g = NULL;
  end_trace(L, lg);
  sp_lua_close_sums(lg);
  return 0;
}

static int graph_tostring(lua_State *L) {
  const sp_lua_graph *lg = sp_lua_test_graph(L, 1);
  if (lg && lg->g) lua_pushfstring(L, "graph of %d stages", (int)sp_graph_n_nodes(lg->g));
  else lua_pushliteral(L, "graph (closed)");
  return 1;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* g:add(stage, params, { what has a row in sp_stage_rows }) -> node */
static int graph_add(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const char *stage = luaL_checkstring(L, 2);
  sp_err err;
  sp_node *node;
  lua_settop(L, 4);
  sp_node_opts o = {0};
  sp_lua_read_rows(L, 4, sp_stage_rows, &o);
  sp_value *params = sp_lua_value_box(L);
  if (sp_lua_value(L, 3, params, &err)) {
    sp_prefix(&err, "stage '%s'", o.name ? o.name : stage);
    return sp_lua_raise(L, &err);
  }
  if (sp_graph_add(lg->g, stage, params, &o, &node, &err)) return sp_lua_raise(L, &err);
  sp_lua_push_node(L, 1, node);
  return 1;
}

/* g:wire(node, port, output) */
static int graph_wire(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_node *node = sp_lua_check_node(L, 2, lg);
  const char *port = luaL_checkstring(L, 3);
  sp_ref from = sp_lua_check_ref(L, 4, lg);
  sp_err err;
  int i = sp_node_find_in(node, port, &err);
  if (i < 0 || sp_graph_wire(lg->g, node, i, from, &err)) return sp_lua_raise(L, &err);
  return 0;
}

static int graph_plan(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_err err;
  if (sp_graph_plan(lg->g, sp_lua_check_node(L, 2, lg), &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* g:has_param(stage, name, on_cpu): whether what g:add takes for that stage has that parameter; false also where there
 * is no such stage, which g:add says */
static int graph_has_param(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const char *stage = luaL_checkstring(L, 2), *name = luaL_checkstring(L, 3);
  const sp_stage_type *type;
  sp_err err;
  bool has = false;
  if (sp_graph_stage_type(lg->g, stage, lua_toboolean(L, 4), &type, &err) == SP_OK)
    for (const sp_param *p = type->params; p && p->name; p++) has |= strcmp(p->name, name) == 0;
  lua_pushboolean(L, has);
  return 1;
}

/* g:nodes() -> all that the script made, in order of construction */
static int graph_nodes(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  size_t n = sp_graph_n_nodes(lg->g);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0, k = 0; i < n; i++) {
    if (sp_node_is_shards(sp_graph_node(lg->g, i))) continue;
    sp_lua_push_node(L, 1, sp_graph_node(lg->g, i));
    lua_rawseti(L, -2, (lua_Integer)++k);
  }
  return 1;
}

/* g:in_trained_part(node) */
static int graph_in_trained_part(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lua_pushboolean(L, sp_graph_in_trained_part(lg->g, sp_lua_check_node(L, 2, lg)));
  return 1;
}

/* A loss stage stands for its first output. */
static sp_ref check_loss(lua_State *L, int idx, const sp_lua_graph *lg) {
  if (!luaL_testudata(L, idx, SP_LUA_NODE)) return sp_lua_check_ref(L, idx, lg);
  sp_node *node = sp_lua_check_node(L, idx, lg);
  if (!(sp_node_type(node)->flags & SP_STAGE_LOSS)) sp_lua_fail(L, "stage '%s' is no loss", sp_node_name(node));
  return (sp_ref){.node = node};
}

/* g:train{ losses = { output, ... }, optimizer = node, accumulate =, optimizer_shards =, lr = function,
 * groups = see graph/groups.h } */
static int graph_train(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_ref losses[MAX_LOSSES];
  sp_err err;
  lua_settop(L, 2);
  luaL_checktype(L, 2, LUA_TTABLE);
  sp_train_opts o = {.losses = losses};
  o.accumulate = (int)sp_lua_opt_int(L, 2, "accumulate", 1, 1, 4096);
  o.optimizer_shards = sp_lua_opt_bool(L, 2, "optimizer_shards", false);
  lua_getfield(L, 2, "losses");
  luaL_checktype(L, 3, LUA_TTABLE);
  for (lua_Integer i = 1; lua_rawgeti(L, 3, i) != LUA_TNIL; i++) {
    if (o.n_losses == MAX_LOSSES) return sp_lua_fail(L, "more than %d losses", MAX_LOSSES);
    losses[o.n_losses++] = check_loss(L, -1, lg);
    lua_pop(L, 1);
  }
  lua_getfield(L, 2, "optimizer");
  o.optimizer = sp_lua_check_node(L, -1, lg);
  if (lua_getfield(L, 2, "lr") != LUA_TNIL) {
    luaL_checktype(L, -1, LUA_TFUNCTION);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, 2);
    o.lr = sp_lua_lr;
    o.lr_arg = lg;
  }
  lua_settop(L, 2);
  sp_value *groups = sp_lua_value_box(L);
  if (lua_getfield(L, 2, "groups") != LUA_TNIL) {
    if (sp_lua_value(L, -1, groups, &err)) return sp_lua_raise(L, &err);
    o.groups = groups;
  }
  if (sp_graph_train(lg->g, &o, &err)) return sp_lua_raise(L, &err);
  lg->by_function = o.lr ? o.optimizer : NULL;
  return 0;
}

/* g:lanes(strategy_name, { { name =, stages = { node | { node, part, ... }, ... }, delay =, priority = -1 | 0 | 1,
 * extra =, replicas = }, ... }) */
static int graph_lanes(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const char *name = luaL_checkstring(L, 2);
  size_t n;
  sp_err err;
  sp_lane_desc *lanes = sp_lua_check_lanes(L, lg, name, 3, &n);
  if (sp_engine_strategy(lg->e, name, lanes, n, &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* g:phase(n): from 0, see sp_engine_phase */
static int graph_phase(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_err err;
  if (sp_engine_phase(lg->e, (uint32_t)luaL_checkinteger(L, 2), &err)) return sp_lua_raise(L, &err);
  return 0;
}

static int graph_build(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_err err;
  if (sp_engine_build(lg->e, &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static int graph_memory(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_mem m;
  sp_err err;
  if (sp_engine_memory(lg->e, &m, &err)) return sp_lua_raise(L, &err);
  lua_createtable(L, 0, 9);
  sp_lua_set_int(L, "weights", m.weights);
  sp_lua_set_int(L, "gradients", m.gradients);
  sp_lua_set_int(L, "optimizer", m.optimizer);
  sp_lua_set_int(L, "activations", m.activations);
  sp_lua_set_int(L, "saved", m.saved);
  sp_lua_set_int(L, "scratch", m.scratch);
  sp_lua_set_int(L, "cache", m.cache);
  sp_lua_set_int(L, "total", m.total);
  sp_lua_set_int(L, "host", m.host);
  return 1;
}

static int graph_schedule(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_schedule_info s;
  sp_err err;
  if (sp_engine_schedule_info(lg->e, &s, &err)) return sp_lua_raise(L, &err);
  lua_createtable(L, 0, 7);
  lua_pushstring(L, s.strategy);
  lua_setfield(L, -2, "strategy");
  sp_lua_set_int(L, "lanes", s.n_lanes);
  sp_lua_set_int(L, "tasks", s.n_tasks);
  sp_lua_set_int(L, "waits", s.n_waits);
  sp_lua_set_int(L, "derived", s.n_derived);
  sp_lua_set_int(L, "operations", s.n_ops);
  sp_lua_set_int(L, "delay", s.depth);
  return 1;
}

static int graph_describe(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_sb sb = {0};
  sp_err err;
  if (sp_engine_describe(lg->e, &sb, &err)) {
    sp_sb_free(&sb);
    return sp_lua_raise(L, &err);
  }
  lua_pushstring(L, sp_sb_str(&sb));
  sp_sb_free(&sb);
  return 1;
}

/* g:timings() -> time per stage and lane in words; nil without a trace */
static int graph_timings(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_sb sb = {0};
  sp_err err;
  if (!lg->trace) {
    lua_pushnil(L);
    return 1;
  }
  if (sp_engine_drain(lg->e, &err)) return sp_lua_raise(L, &err);
  sp_trace_summary(lg->trace, &sb);
  lua_pushstring(L, sp_sb_str(&sb));
  sp_sb_free(&sb);
  return 1;
}

static int graph_epoch_steps(lua_State *L) {
  uint64_t steps;
  sp_err err;
  if (sp_engine_epoch_steps(sp_lua_check_graph(L, 1)->e, &steps, &err)) return sp_lua_raise(L, &err);
  lua_pushinteger(L, (lua_Integer)steps);
  return 1;
}

static int graph_allocations(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sp_engine_allocations(sp_lua_check_graph(L, 1)->e));
  return 1;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* g:load(weights (scripts/spcore/weights.lua) [, node]) */
static int graph_load(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_node *node = lua_isnoneornil(L, 3) ? NULL : sp_lua_check_node(L, 3, lg);
  lua_settop(L, 3);
  sp_value *v = sp_lua_value_box(L);
  sp_params from = {0};
  sp_err err;
  int st = sp_lua_value(L, 2, v, &err);
  if (!st) st = sp_params_fill(&from, sp_load_params, sizeof(sp_load), v, &err);
  if (st) sp_prefix(&err, "weights");
  else st = sp_engine_load(lg->e, node, from.data, &err);
  sp_lua_was_long(L);
  sp_params_free(&from);
  return st ? sp_lua_raise(L, &err) : 0;
}

/* g:save(path, with_optimizer, with_averages) */
static int graph_save(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  unsigned what = (lua_toboolean(L, 3) ? SP_SAVE_OPTIMIZER : 0) | (lua_toboolean(L, 4) ? SP_SAVE_AVERAGES : 0);
  sp_err err;
  int st = sp_engine_save(lg->e, luaL_checkstring(L, 2), what, &err);
  sp_lua_was_long(L);
  if (st) return sp_lua_raise(L, &err);
  return 0;
}

/* g:averages() -> whether the optimizer keeps averages of the weights; of a graph that is planned */
static int graph_averages(lua_State *L) {
  lua_pushboolean(L, sp_store_averages(sp_graph_store(sp_lua_check_graph(L, 1)->g)));
  return 1;
}

static const luaL_Reg graph_functions[] = {
    {"add", graph_add},
    {"wire", graph_wire},
    {"phase", graph_phase},
    {"plan", graph_plan},
    {"plugins", graph_plugins},
    {"outside", graph_outside},
    {"has_param", graph_has_param},
    {"nodes", graph_nodes},
    {"in_trained_part", graph_in_trained_part},
    {"train", graph_train},
    {"lanes", graph_lanes},
    {"build", graph_build},
    {"memory", graph_memory},
    {"schedule", graph_schedule},
    {"describe", graph_describe},
    {"plan_info", sp_lua_plan_info},
    {"timings", graph_timings},
    {"epoch_steps", graph_epoch_steps},
    {"allocations", graph_allocations},
    {"load", graph_load},
    {"save", graph_save},
    {"averages", graph_averages},
    {"snapshot", sp_lua_snapshot},
    {"close", graph_close},
    {"options", graph_options},
    {NULL, NULL},
};

void sp_lua_open_graph(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", graph_close},
      {"__close", graph_close},
      {"__tostring", graph_tostring},
      {NULL, NULL},
  };
  luaL_newmetatable(L, SP_LUA_GRAPH);
  luaL_setfuncs(L, meta, 0);
  lua_newtable(L);
  luaL_setfuncs(L, graph_functions, 0);
  luaL_setfuncs(L, sp_lua_step_functions, 0);
  luaL_setfuncs(L, sp_lua_request_functions, 0);
  luaL_setfuncs(L, sp_lua_trial_functions, 0);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  sp_lua_open_node(L);
}
