/* SPDX-License-Identifier: MIT
 * trial.c - strategies tried on a graph object before it runs; scripts/spcore/auto.lua decides what. */
#include <math.h>

#include "lua/graph.h"
#include "run/trial.h"

/* Candidates are counted from 1. */
static size_t check_index(lua_State *L) {
  lua_Integer i = luaL_checkinteger(L, 2);
  if (i < 1) sp_lua_fail(L, "there is no candidate %d", (int)i);
  return (size_t)i - 1;
}

/* nil, why, "device" where nothing may be expected of the device any more, "memory" where there is too little,
 * else "other" */
static int failed(lua_State *L, const sp_err *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->msg);
  lua_pushstring(L, err->status == SP_E_DEVICE ? "device" : err->status == SP_E_NOMEM ? "memory" : "other");
  return 3;
}

/* g:trial_begin() -> true | nil, why, kind */
static int trial_begin(lua_State *L) {
  sp_err err;
  if (sp_trial_begin(sp_lua_check_graph(L, 1)->e, &err)) return failed(L, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* g:trial_end(): raises where the graph is not as it was */
static int trial_end(lua_State *L) {
  sp_lua_graph *lg = sp_lua_test_graph(L, 1);
  sp_err err;
  if (lg && lg->e && sp_trial_end(lg->e, &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* g:trial_add(name, lanes) -> its number, or that of an earlier one that does the same | nil, why, kind */
static int trial_add(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const char *name = luaL_checkstring(L, 2);
  size_t n, index;
  sp_err err;
  sp_lane_desc *lanes = sp_lua_check_lanes(L, lg, name, 3, &n);
  if (sp_trial_add(lg->e, name, lanes, n, &index, &err)) return failed(L, &err);
  lua_pushinteger(L, (lua_Integer)index + 1);
  return 1;
}

/* g:trial_memory(i) -> bytes of the graph with it, nil or why it does not fit */
static int trial_memory(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_mem mem;
  sp_err err;
  int st = sp_trial_memory(lg->e, check_index(L), &mem, &err);
  lua_pushinteger(L, (lua_Integer)mem.total);
  if (!st) return 1;
  lua_pushstring(L, err.msg);
  return 2;
}

/* g:trial_run(i, steps) -> seconds of a step | nil, why, kind */
static int trial_run(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lua_Integer steps = luaL_checkinteger(L, 3);
  sp_turn turn;
  sp_err err;
  lg->busy = true;
  int st = sp_trial_run(lg->e, check_index(L), steps > 1 ? (uint64_t)steps : 1, &turn, &err);
  lg->busy = false;
  if (st) return failed(L, &err);
  lua_pushnumber(L, turn.seconds);
  return 1;
}

/* g:trial_measure(i, seconds) -> true | nil, why, kind */
static int trial_measure(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_err err;
  if (sp_trial_measure(lg->e, check_index(L), luaL_checknumber(L, 3), &err)) return failed(L, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* g:trial_drop(i) */
static int trial_drop(lua_State *L) {
  sp_trial_drop(sp_lua_check_graph(L, 1)->e, check_index(L));
  return 0;
}

static void set_number(lua_State *L, const char *key, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, key);
}

static void push_lane(lua_State *L, const sp_trial_forecast *f, size_t i) {
  lua_createtable(L, 0, 5);
  sp_lua_set_str(L, "name", f->lanes[i].name);
  lua_pushboolean(L, f->lanes[i].source);
  lua_setfield(L, -2, "source");
  set_number(L, "busy", f->lanes[i].busy);
  set_number(L, "work", f->lanes[i].work);
  lua_createtable(L, (int)f->n_lanes, 0);
  for (size_t k = 0; k < f->n_lanes; k++) {
    double share = f->share[i * f->n_lanes + k];
    if (isnan(share)) lua_pushboolean(L, 0);
    else lua_pushnumber(L, share);
    lua_rawseti(L, -2, (lua_Integer)k + 1);
  }
  lua_setfield(L, -2, "share");
}

/* g:trial_predict(i) -> { seconds =, host =, lanes = { { name =, source =, busy =, work =, share = { number | false,
 * ... } }, ... } }, seconds of a step each | nil, why, kind */
static int trial_predict(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_trial_forecast f;
  sp_err err;
  if (sp_trial_predict(lg->e, check_index(L), &f, &err)) return failed(L, &err);
  lua_createtable(L, 0, 3);
  set_number(L, "seconds", f.seconds);
  set_number(L, "host", f.host);
  lua_createtable(L, (int)f.n_lanes, 0);
  for (size_t i = 0; i < f.n_lanes; i++) {
    push_lane(L, &f, i);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "lanes");
  return 1;
}

/* g:trial_costs() -> { { name =, seconds = }, ... } of calls and copies alone */
static int trial_costs(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const char *name;
  double seconds;
  lua_newtable(L);
  for (size_t i = 0; sp_trial_cost(lg->e, i, &name, &seconds), name; i++) {
    lua_createtable(L, 0, 2);
    sp_lua_set_str(L, "name", name);
    set_number(L, "seconds", seconds);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

const luaL_Reg sp_lua_trial_functions[] = {
    {"trial_begin", trial_begin},     {"trial_end", trial_end},
    {"trial_add", trial_add},         {"trial_memory", trial_memory},
    {"trial_run", trial_run},         {"trial_measure", trial_measure},
    {"trial_predict", trial_predict}, {"trial_costs", trial_costs},
    {"trial_drop", trial_drop},       {NULL, NULL},
};
