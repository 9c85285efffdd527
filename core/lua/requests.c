/* SPDX-License-Identifier: MIT
 * requests.c - requests of a graph object: submitted, cancelled and counted; answers as Lua values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/spec.h"
#include "lua/graph.h"

static sp_queue *check_queue(lua_State *L, const sp_lua_graph *lg) {
  sp_queue *q = sp_graph_queue(lg->g);
  if (!q)
    sp_lua_fail(L, "the graph reads no requests: its source is none of requests, image_requests, request_load ...");
  return q;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static const char *status_word(int status) {
  return status == SP_OK ? "ok" : status == SP_E_CANCELLED ? "cancelled" : status == SP_E_LATE ? "late" : "failed";
}

/* (lightuserdata graph, lightuserdata answer): puts the answer into the list that is user value 4. */
static int keep_answer(lua_State *L) {
  sp_lua_graph *lg = lua_touserdata(L, 2);
  const sp_answer *a = lua_touserdata(L, 3);
  lua_getiuservalue(L, 1, 4);
  lua_createtable(L, 0, (int)a->n_results + 6);
  for (uint32_t i = 0; i < a->n_results; i++) {
    sp_lua_push_tensor(L, &a->results[i].spec, a->results[i].data, lg->raw_results);
    lua_setfield(L, -2, a->names[i]);
  }
  sp_lua_set_int(L, "ticket", (lua_Integer)a->ticket);
  sp_lua_set_str(L, "status", status_word(a->status));
  sp_lua_set_str(L, "error", a->error);
  lua_pushnumber(L, a->waited);
  lua_setfield(L, -2, "waited");
  lua_pushnumber(L, a->took);
  lua_setfield(L, -2, "took");
  if (a->status == SP_OK) sp_lua_set_int(L, "step", (lua_Integer)a->step);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  return 0;
}

/* On the thread of the loop, within a call of the core. Nothing may be raised through it. */
static void on_answer(void *arg, const sp_answer *a) {
  sp_lua_graph *lg = arg;
  lua_State *L = lg->L;
  if (!L || !lua_checkstack(L, 8)) return; /* the graph is being closed: nobody is there to read it */
  lua_pushcfunction(L, keep_answer);
  lua_pushvalue(L, lg->self);
  lua_pushlightuserdata(L, lg);
  lua_pushlightuserdata(L, (void *)a);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
    lg->answer_lost = true;
    lua_pop(L, 1);
  }
  lg->answered = true;
}

/* g:take_answers() -> those that have come since the last call, in the order in which they came */
static int requests_take(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lua_getiuservalue(L, 1, 4);
  lua_newtable(L);
  lua_setiuservalue(L, 1, 4);
  lg->answered = false;
  if (lg->answer_lost) return sp_lua_fail(L, "no memory for the answers to requests");
  return 1;
}

/* ---- submitting -------------------------------------------------------------------------------------------------- */

/* Deadlines come in seconds. */
static int64_t deadline_us(lua_State *L, int t) {
  if (lua_getfield(L, t, "deadline") == LUA_TNIL) return 0;
  double s = lua_tonumber(L, -1);
  if (!lua_isnumber(L, -1) || !(s > 0) || s > 1e6)
    return sp_lua_fail(L, "a request's deadline is in seconds, above 0 and at most 1e6, got %s",
                       luaL_tolstring(L, -1, NULL));
  return s * 1e6 < 1 ? 1 : (int64_t)(s * 1e6);
}

/* g:submit({ bytes, ... , name =, deadline = seconds, form = 0 }) -> ticket | nil, why, "full" or "refused" */
static int requests_submit(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_queue *q = check_queue(L, lg);
  sp_part parts[SP_QUEUE_MAX_PARTS];
  sp_request r = {.size = sizeof r, .parts = parts, .answer = on_answer, .arg = lg};
  char why[256] = "";
  uint64_t ticket;
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  luaL_checkstack(L, SP_QUEUE_MAX_PARTS + 8, "a request");
  for (; lua_rawgeti(L, 2, (lua_Integer)r.n_parts + 1) != LUA_TNIL; r.n_parts++) {
    if (r.n_parts == SP_QUEUE_MAX_PARTS) return sp_lua_fail(L, "a request of more than %d parts", SP_QUEUE_MAX_PARTS);
    if (lua_type(L, -1) != LUA_TSTRING)
      return sp_lua_fail(L, "part %d of the request is a %s; bytes in a string are wanted", (int)r.n_parts + 1,
                         luaL_typename(L, -1));
    parts[r.n_parts].data = lua_tolstring(L, -1, &parts[r.n_parts].bytes);
  }
  r.name = sp_lua_opt_str(L, 2, "name", NULL);
  r.form = (uint32_t)sp_lua_opt_int(L, 2, "form", 0, 0, 1000);
  r.deadline_us = deadline_us(L, 2);
  int st = sp_queue_submit(q, &r, &ticket, why, sizeof why);
  if (st) {
    lua_pushnil(L);
    lua_pushstring(L, why);
    lua_pushstring(L, st == SP_E_FULL ? "full" : "refused");
    return 3;
  }
  lua_pushinteger(L, (lua_Integer)ticket);
  return 1;
}

/* g:cancel(ticket) -> true | nil, why */
static int requests_cancel(lua_State *L) {
  sp_queue *q = check_queue(L, sp_lua_check_graph(L, 1));
  int st = sp_queue_cancel(q, (uint64_t)luaL_checkinteger(L, 2));
  lua_pushboolean(L, !st);
  if (!st) return 1;
  lua_pushnil(L);
  lua_pushstring(L, st == SP_E_STATE ? "a step has taken it already" : "it was answered, or there is no such request");
  return 2;
}

/* g:attach(yes): the script is going to submit more, or not any more */
static int requests_attach(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_queue *q = check_queue(L, lg);
  bool yes = lua_toboolean(L, 2);
  if (yes != lg->attached) (yes ? sp_queue_attach : sp_queue_detach)(q);
  lg->attached = yes;
  return 0;
}

/* g:serves(): it reads requests */
static int requests_serves(lua_State *L) {
  lua_pushboolean(L, sp_graph_queue(sp_lua_check_graph(L, 1)->g) != NULL);
  return 1;
}

static int requests_room(lua_State *L) {
  lua_pushboolean(L, sp_queue_has_room(check_queue(L, sp_lua_check_graph(L, 1))));
  return 1;
}

static void set_seconds(lua_State *L, const char *key, double v) {
  if (isnan(v)) return;
  lua_pushnumber(L, v);
  lua_setfield(L, -2, key);
}

static void set_times(lua_State *L, const char *key, const sp_queue_times *t) {
  lua_createtable(L, 0, 6);
  set_seconds(L, "mean", t->mean);
  set_seconds(L, "max", t->max);
  set_seconds(L, "p50", t->p50);
  set_seconds(L, "p90", t->p90);
  set_seconds(L, "p99", t->p99);
  set_seconds(L, "p999", t->p999);
  lua_setfield(L, -2, key);
}

/* g:request_stats(clear) -> counts, times in seconds, histogram = { { from, to, n }, ... }; clear: counted anew */
static int requests_stats(lua_State *L) {
  sp_queue *q = check_queue(L, sp_lua_check_graph(L, 1));
  sp_queue_stats s;
  double from, to;
  uint64_t n;
  size_t at = 0;
  sp_queue_get_stats(q, &s);
  lua_createtable(L, 0, 12);
  sp_lua_set_int(L, "accepted", (lua_Integer)s.accepted);
  sp_lua_set_int(L, "refused", (lua_Integer)s.refused);
  sp_lua_set_int(L, "done", (lua_Integer)s.done);
  sp_lua_set_int(L, "failed", (lua_Integer)s.failed);
  sp_lua_set_int(L, "cancelled", (lua_Integer)s.cancelled);
  sp_lua_set_int(L, "late", (lua_Integer)s.late);
  sp_lua_set_int(L, "open", (lua_Integer)s.open);
  sp_lua_set_int(L, "steps", (lua_Integer)s.steps);
  sp_lua_set_int(L, "bytes", (lua_Integer)s.bytes);
  set_times(L, "waited", &s.waited);
  set_times(L, "took", &s.took);
  lua_newtable(L);
  for (lua_Integer i = 1; sp_queue_bin(q, &at, &from, &to, &n); i++) {
    lua_createtable(L, 3, 0);
    lua_pushnumber(L, from);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, to);
    lua_rawseti(L, -2, 2);
    lua_pushinteger(L, (lua_Integer)n);
    lua_rawseti(L, -2, 3);
    lua_rawseti(L, -2, i);
  }
  lua_setfield(L, -2, "histogram");
  if (lua_toboolean(L, 2)) sp_queue_clear_stats(q);
  return 1;
}

/* g:result(output): a step's result, and the answer to a request, has it too */
static int requests_result(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_err err;
  if (sp_graph_result(lg->g, sp_lua_check_ref(L, 2, lg), &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* g:raw_results(yes): results are strings of the elements as they lie in memory, row-major, not tables */
static int requests_raw(lua_State *L) {
  sp_lua_check_graph(L, 1)->raw_results = lua_toboolean(L, 2);
  return 0;
}

const luaL_Reg sp_lua_request_functions[] = {
    {"submit", requests_submit},     {"cancel", requests_cancel},
    {"attach", requests_attach},     {"serves", requests_serves},
    {"room", requests_room},         {"request_stats", requests_stats},
    {"take_answers", requests_take}, {"result", requests_result},
    {"raw_results", requests_raw},   {NULL, NULL},
};
