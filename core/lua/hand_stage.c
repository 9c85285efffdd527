/* SPDX-License-Identifier: MIT
 * hand_stage.c - stages outside of graphs as objects, and stream:run, backward and update. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/model.h"
#include "lua/hand.h"
#include "lua/value.h"

#define MAX_WEIGHT (1 << 24)

/* device:stage(stage, params, name or nil, frozen, weights (scripts/spcore/weights.lua) or nil) */
static int hand_stage(lua_State *L) {
  sp_hand *h = sp_lua_check_hand(L, 1);
  const char *stage = luaL_checkstring(L, 2), *name = luaL_optstring(L, 4, NULL);
  bool frozen = lua_toboolean(L, 5);
  lua_settop(L, 6);
  sp_value *params = sp_lua_value_box(L), *weights = lua_isnoneornil(L, 6) ? NULL : sp_lua_value_box(L);
  sp_hstage *st;
  sp_err err;
  if (sp_lua_value(L, 3, params, &err) || (weights && sp_lua_value(L, 6, weights, &err))) {
    sp_prefix(&err, "stage '%s'", stage);
    return sp_lua_raise(L, &err);
  }
  void **object = sp_lua_hand_object(L, 1, SP_LUA_HSTAGE);
  if (sp_hstage_new(h, stage, name, params, frozen, weights, &st, &err)) return sp_lua_raise(L, &err);
  *object = st;
  return 1;
}

const luaL_Reg sp_lua_stage_makers[] = {{"stage", hand_stage}, {NULL, NULL}};

static sp_node *node_of(lua_State *L, int idx) {
  sp_node *n = sp_hstage_node(sp_lua_check_hstage(L, idx));
  if (!n) sp_lua_fail(L, "the device of this stage is closed");
  return n;
}

/* ---- ports ------------------------------------------------------------------------------------------------------- */

/* Room for the tensors of n ports, on the Lua stack. */
static sp_hports new_ports(lua_State *L, uint32_t n) {
  size_t each = sizeof *((sp_hports *)0)->port;
  sp_hports ports = {.port = lua_newuserdatauv(L, (n + 1) * each, 0), .n = n};
  memset(ports.port, 0, (n + 1) * each);
  return ports;
}

typedef struct wanted { /* for words */
  const char *stage, *side;
  const sp_port *ports;
} wanted;

/* A tensor, or a list of them, at the top of the stack becomes the tensors of port i. */
static void put_port(lua_State *L, sp_hports *to, uint32_t i, const wanted *w) {
  lua_Integer n = lua_istable(L, -1) ? luaL_len(L, -1) : 1;
  if (n > SP_MAX_LIST || (n != 1 && !(w->ports[i].flags & SP_PORT_LIST)))
    sp_lua_fail(L, "stage '%s', %s '%s' %s, got %lld", w->stage, w->side, w->ports[i].name,
                w->ports[i].flags & SP_PORT_LIST ? "takes at most 1024 tensors" : "takes one tensor", (long long)n);
  int value = lua_gettop(L);
  sp_htensor **t = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *t, 0);
  for (lua_Integer k = 0; k < n; k++) {
    if (lua_istable(L, value)) lua_rawgeti(L, value, k + 1);
    else lua_pushvalue(L, value);
    if (!luaL_testudata(L, -1, SP_LUA_TENSOR))
      sp_lua_fail(L, "stage '%s', %s '%s': a tensor is wanted, got a %s", w->stage, w->side, w->ports[i].name,
                  luaL_typename(L, -1));
    t[k] = sp_lua_check_tensor(L, -1);
    lua_pop(L, 1);
  }
  to->port[i].t = t;
  to->port[i].n = (uint32_t)n;
  lua_insert(L, value); /* the list stays on the stack, below its value */
}

static uint32_t find_port(lua_State *L, const char *name, const wanted *w) {
  uint32_t n = sp_ports_count(w->ports);
  const char **names = lua_newuserdatauv(L, (n + 1) * sizeof *names, 0);
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(w->ports[i].name, name)) {
      lua_pop(L, 1);
      return i;
    }
  for (uint32_t i = 0; i < n; i++) names[i] = w->ports[i].name;
  names[n] = NULL;
  const char *near = sp_nearest(name, names);
  sp_lua_fail(L, "stage '%s' has no %s '%s'%s%s%s", w->stage, w->side, name, near ? "; did you mean '" : "",
              near ? near : "", near ? "'?" : "");
  return 0;
}

/* What stands without a key goes to the ports in their order; a list takes all that are left. */
static void put_in_order(lua_State *L, int idx, sp_hports *to, const wanted *w) {
  lua_Integer n = luaL_len(L, idx), at = 1;
  for (uint32_t i = 0; at <= n; i++) {
    if (i >= to->n)
      sp_lua_fail(L, "stage '%s' has %d %s%s, got %lld tensors", w->stage, (int)to->n, w->side, to->n == 1 ? "" : "s",
                  (long long)n);
    if (w->ports[i].flags & SP_PORT_LIST && lua_rawgeti(L, idx, at) != LUA_TTABLE) {
      lua_pop(L, 1);
      lua_createtable(L, (int)(n - at + 1), 0);
      for (int k = 1; at <= n; at++, k++) {
        lua_rawgeti(L, idx, at);
        lua_rawseti(L, -2, k);
      }
    } else {
      if (!(w->ports[i].flags & SP_PORT_LIST)) lua_rawgeti(L, idx, at);
      at++;
    }
    luaL_checkstack(L, 8, "tensors");
    put_port(L, to, i, w);
    lua_pop(L, 1);
  }
}

static sp_hports take_ports(lua_State *L, int idx, const wanted *w) {
  sp_hports to = new_ports(L, sp_ports_count(w->ports));
  if (lua_isnoneornil(L, idx)) return to;
  if (luaL_testudata(L, idx, SP_LUA_TENSOR)) {
    if (!to.n) sp_lua_fail(L, "stage '%s' has no %s", w->stage, w->side);
    lua_pushvalue(L, idx);
    put_port(L, &to, 0, w);
    lua_pop(L, 1);
    return to;
  }
  if (!lua_istable(L, idx))
    sp_lua_fail(L, "stage '%s': its %ss are a tensor or a table of them, got a %s", w->stage, w->side,
                luaL_typename(L, idx));
  put_in_order(L, idx, &to, w);
  lua_Integer n = luaL_len(L, idx);
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= n) {
      lua_pop(L, 1);
      continue;
    }
    if (lua_type(L, -2) != LUA_TSTRING) sp_lua_fail(L, "stage '%s': a key of its %ss is no name", w->stage, w->side);
    uint32_t i = find_port(L, lua_tostring(L, -2), w);
    if (to.port[i].n) sp_lua_fail(L, "stage '%s': %s '%s' is given twice", w->stage, w->side, w->ports[i].name);
    luaL_checkstack(L, 8, "tensors");
    put_port(L, &to, i, w); /* key, list, value */
    lua_pop(L, 1);
    lua_insert(L, -2); /* list, key */
  }
  return to;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void check_keys(lua_State *L, int idx, const char *what, const char *const *known) {
  if (lua_isnoneornil(L, idx)) return;
  if (!lua_istable(L, idx)) sp_lua_fail(L, "%s: options are a table, got a %s", what, luaL_typename(L, idx));
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    bool there = false;
    for (int i = 0; known[i]; i++) there = there || !strcmp(known[i], key);
    if (!there) {
      const char *near = sp_nearest(key, known);
      sp_lua_fail(L, "%s has no option '%s'%s%s%s", what, key, near ? "; did you mean '" : "", near ? near : "",
                  near ? "'?" : "");
    }
    lua_pop(L, 1);
  }
}

static sp_hrun how_of(lua_State *L, int idx) {
  static const char *const keys[] = {"step", "ids", "evaluate", NULL};
  sp_hrun how = {0};
  check_keys(L, idx, "stream:run", keys);
  if (!lua_istable(L, idx)) return how;
  how.step = (uint64_t)sp_lua_opt_int(L, idx, "step", 0, 0, LUA_MAXINTEGER);
  how.evaluate = sp_lua_opt_bool(L, idx, "evaluate", false);
  if (lua_getfield(L, idx, "ids") == LUA_TNIL) return how;
  if (!lua_istable(L, -1)) sp_lua_fail(L, "stream:run: 'ids' is a list of numbers, got a %s", luaL_typename(L, -1));
  how.n_ids = lua_rawlen(L, -1);
  uint64_t *ids = lua_newuserdatauv(L, (how.n_ids + 1) * sizeof *ids, 0);
  for (size_t i = 0; i < how.n_ids; i++) {
    lua_rawgeti(L, -2, (lua_Integer)i + 1);
    lua_Integer v = lua_tointeger(L, -1);
    if (!lua_isinteger(L, -1) || v < 0) sp_lua_fail(L, "stream:run: id %d is no whole number from 0", (int)i + 1);
    ids[i] = (uint64_t)v;
    lua_pop(L, 1);
  }
  how.ids = ids;
  return how;
}

static void push_out(lua_State *L, int hand_idx, sp_hstage *st, uint32_t i, uint32_t k) {
  sp_htensor *t = sp_hstage_out(st, i, k);
  if (!t) {
    lua_pushnil(L);
    return;
  }
  sp_htensor_hold(t);
  sp_lua_push_htensor(L, hand_idx, t);
}

/* What is not there: a wrong name, or an optional output that nobody asked for. */
static int no_output(lua_State *L) {
  sp_sb names = {0};
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING) sp_sb_putf(&names, "%s'%s'", names.n ? ", " : "", lua_tostring(L, -2));
    lua_pop(L, 1);
  }
  const char *there = lua_pushstring(L, sp_sb_str(&names)), *key = luaL_tolstring(L, 2, NULL);
  sp_sb_free(&names);
  return sp_lua_fail(L, "there is no output '%s', but %s; an optional one is there where it was asked for or given",
                     key, there);
}

static void end_outputs(lua_State *L) {
  if (luaL_newmetatable(L, "spcore.outputs")) {
    lua_pushcfunction(L, no_output);
    lua_setfield(L, -2, "__index");
  }
  lua_setmetatable(L, -2);
}

/* { port = tensor or list } */
static int push_outputs(lua_State *L, sp_hstage *st) {
  const sp_port *p = sp_node_type(sp_hstage_node(st))->outputs;
  sp_lua_hand_of(L, 1);
  int hand = lua_gettop(L);
  lua_newtable(L);
  for (uint32_t i = 0; p && p[i].name; i++) {
    uint32_t n = sp_hstage_n_out(st, i);
    if (p[i].flags & SP_PORT_STATUS) continue;
    if (!(p[i].flags & SP_PORT_LIST)) push_out(L, hand, st, i, 0);
    else {
      lua_createtable(L, (int)n, 0);
      for (uint32_t k = 0; k < n; k++) {
        push_out(L, hand, st, i, k);
        lua_rawseti(L, -2, (lua_Integer)k + 1);
      }
    }
    lua_setfield(L, -2, p[i].name);
  }
  end_outputs(L);
  return 1;
}

/* stream:run(stage, inputs, outputs or nil, { step =, ids =, evaluate = }) -> outputs by name */
static int stream_run(lua_State *L) {
  sp_hstream *s = sp_lua_check_stream(L, 1);
  sp_hstage *st = sp_lua_check_hstage(L, 2);
  const sp_stage_type *type = sp_node_type(node_of(L, 2));
  const char *name = sp_node_name(node_of(L, 2));
  sp_err err;
  lua_settop(L, 5);
  sp_hports in = take_ports(L, 3, &(wanted){name, "input", type->inputs});
  sp_hports out = take_ports(L, 4, &(wanted){name, "output", type->outputs});
  sp_hrun how = how_of(L, 5);
  const sp_hand *h = sp_lua_hand_of(L, 1);
  if (sp_hstage_run(st, s, &in, &out, &how, sp_lua_hand_where(L, h, true), &err)) return sp_lua_raise(L, &err);
  return push_outputs(L, st);
}

/* stream:backward(stage, { inputs =, accumulate =, last = }) */
static int stream_backward(lua_State *L) {
  static const char *const keys[] = {"inputs", "accumulate", "last", NULL};
  sp_hstream *s = sp_lua_check_stream(L, 1);
  sp_hstage *st = sp_lua_check_hstage(L, 2);
  sp_err err;
  lua_settop(L, 3);
  check_keys(L, 3, "stream:backward", keys);
  const sp_hrun how = {.inputs = sp_lua_opt_bool(L, 3, "inputs", false),
                       .accumulate = sp_lua_opt_bool(L, 3, "accumulate", false),
                       .last = sp_lua_opt_bool(L, 3, "last", false)};
  const sp_hand *h = sp_lua_hand_of(L, 1);
  if (sp_hstage_backward(st, s, &how, sp_lua_hand_where(L, h, false), &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* stream:update(optimizer, stage or list of them) */
static int stream_update(lua_State *L) {
  sp_hstream *s = sp_lua_check_stream(L, 1);
  sp_hstage *opt = sp_lua_check_hstage(L, 2);
  sp_err err;
  lua_settop(L, 3);
  if (!lua_istable(L, 3)) { /* a stage alone */
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, 3);
    lua_rawseti(L, -2, 1);
    lua_replace(L, 3);
  }
  size_t n = lua_rawlen(L, 3);
  if (n > SP_HAND_MAX_STAGES) return sp_lua_fail(L, "stream:update: %zu stages are too many", n);
  sp_hstage **stages = lua_newuserdatauv(L, (n + 1) * sizeof *stages, 0);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    stages[i] = sp_lua_check_hstage(L, -1);
    lua_pop(L, 1);
  }
  const sp_hand *h = sp_lua_hand_of(L, 1);
  if (sp_hstage_update(opt, s, stages, n, sp_lua_hand_where(L, h, false), &err)) return sp_lua_raise(L, &err);
  return 0;
}

const luaL_Reg sp_lua_stage_calls[] = {
    {"run", stream_run}, {"backward", stream_backward}, {"update", stream_update}, {NULL, NULL}};

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static int stage_name(lua_State *L) {
  lua_pushstring(L, sp_node_name(node_of(L, 1)));
  return 1;
}

static bool named(lua_State *L, int idx, const char *name) {
  bool there = false;
  for (lua_Integer i = 1; lua_istable(L, idx) && i <= luaL_len(L, idx) && !there; i++) {
    lua_rawgeti(L, idx, i);
    there = lua_type(L, -1) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), name);
    lua_pop(L, 1);
  }
  return there;
}

static void make_outputs(lua_State *L, sp_node *n, int port, const char *where) {
  const sp_port *p = &sp_node_type(n)->outputs[port];
  const sp_speclist *s = sp_node_out_specs(n, port);
  int hand = lua_gettop(L) - 1;
  lua_createtable(L, (int)s->n, 0);
  for (uint32_t k = 0; k < s->n; k++) {
    sp_htensor *t;
    sp_err err;
    lua_pushfstring(L, "%s.%s", sp_node_name(n), p->name);
    if (sp_htensor_new(sp_lua_check_hand(L, hand), &s->spec[k], SP_AT_DEVICE, lua_tostring(L, -1), where, &t, &err))
      sp_lua_raise(L, &err);
    lua_pop(L, 1);
    sp_lua_push_htensor(L, hand, t);
    lua_rawseti(L, -2, (lua_Integer)k + 1);
  }
  if (!(p->flags & SP_PORT_LIST)) {
    lua_rawgeti(L, -1, 1);
    lua_remove(L, -2);
  }
  lua_setfield(L, -2, p->name);
}

/* stage:outputs(inputs, { names of optional ones }) -> new tensors for its outputs, by name */
static int stage_outputs(lua_State *L) {
  sp_hstage *st = sp_lua_check_hstage(L, 1);
  sp_node *n = node_of(L, 1);
  const sp_port *p = sp_node_type(n)->outputs;
  sp_err err;
  lua_settop(L, 3);
  sp_hports in = take_ports(L, 2, &(wanted){sp_node_name(n), "input", sp_node_type(n)->inputs});
  if (sp_hstage_plan(st, &in, &err)) return sp_lua_raise(L, &err);
  const char *where = sp_lua_hand_where(L, sp_lua_hand_of(L, 1), true);
  lua_newtable(L);
  for (int i = 0; p && p[i].name; i++)
    if (!(p[i].flags & SP_PORT_STATUS) && (!(p[i].flags & SP_PORT_OPTIONAL) || named(L, 3, p[i].name)))
      make_outputs(L, n, i, where);
  end_outputs(L);
  return 1;
}

/* stage:set(name, value): of the calls from now on */
static int stage_set(lua_State *L) {
  sp_err err;
  if (sp_node_set_live(node_of(L, 1), luaL_checkstring(L, 2), luaL_checknumber(L, 3), &err))
    return sp_lua_raise(L, &err);
  return 0;
}

static int stage_get(lua_State *L) {
  double value;
  sp_err err;
  if (sp_node_get_live(node_of(L, 1), luaL_checkstring(L, 2), &value, &err)) return sp_lua_raise(L, &err);
  lua_pushnumber(L, value);
  return 1;
}

/* stage:weights() -> { { name =, shape = }, ... }; empty before the first run */
static int stage_weights(lua_State *L) {
  const sp_weights *of = sp_node_params(node_of(L, 1));
  lua_createtable(L, (int)of->n_weights, 0);
  for (size_t i = 0; i < of->n_weights; i++) {
    const sp_weight *w = &of->weights[i];
    lua_createtable(L, 0, 2);
    sp_lua_set_str(L, "name", w->name);
    sp_lua_push_shape(L, &w->spec);
    lua_setfield(L, -2, "shape");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* stage:weight(name) -> its values in row-major order, and `shape` */
static int stage_weight(lua_State *L) {
  sp_hstage *st = sp_lua_check_hstage(L, 1);
  const char *name = luaL_checkstring(L, 2);
  sp_spec spec;
  sp_err err;
  if (sp_hstage_weight(st, name, &spec, NULL, 0, &err)) return sp_lua_raise(L, &err);
  int64_t n = sp_spec_count(&spec);
  if (spec.dtype != SP_F32 || n < 0 || n > MAX_WEIGHT)
    return sp_lua_fail(L, "weight '%s' is not float32 of at most %d values", name, MAX_WEIGHT);
  size_t bytes = (size_t)n * sizeof(float);
  float *v = lua_newuserdatauv(L, bytes + 1, 0);
  if (sp_hstage_weight(st, name, &spec, v, bytes, &err)) return sp_lua_raise(L, &err);
  lua_createtable(L, (int)n, 1);
  for (int64_t i = 0; i < n; i++) {
    lua_pushnumber(L, (double)v[i]);
    lua_rawseti(L, -2, i + 1);
  }
  sp_lua_push_shape(L, &spec);
  lua_setfield(L, -2, "shape");
  return 1;
}

/* stage:checksum() -> a hash of all weights and statistics, as text */
static int stage_checksum(lua_State *L) {
  sp_hstage *st = sp_lua_check_hstage(L, 1);
  const sp_weights *of = sp_node_params(node_of(L, 1));
  uint64_t h = SP_FNV64;
  char text[32];
  for (size_t i = 0; i < of->n_weights; i++) {
    sp_spec spec;
    sp_err err;
    size_t bytes = (size_t)sp_spec_bytes(&of->weights[i].spec);
    void *data = lua_newuserdatauv(L, bytes + 1, 0);
    if (sp_hstage_weight(st, of->weights[i].name, &spec, data, bytes, &err)) return sp_lua_raise(L, &err);
    h = sp_fnv64(h, data, bytes);
    lua_pop(L, 1);
  }
  snprintf(text, sizeof text, "%016" PRIx64, h);
  lua_pushstring(L, text);
  return 1;
}

static int stage_gc(lua_State *L) {
  sp_hstage **st = luaL_checkudata(L, 1, SP_LUA_HSTAGE);
  if (*st) sp_hstage_drop(*st);
  *st = NULL;
  return 0;
}

static int stage_tostring(lua_State *L) {
  sp_node *n = sp_hstage_node(sp_lua_check_hstage(L, 1));
  lua_pushfstring(L, "stage '%s'", n ? sp_node_name(n) : "closed");
  return 1;
}

void sp_lua_open_hstage(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", stage_gc}, {"__tostring", stage_tostring}, {NULL, NULL}};
  static const luaL_Reg calls[] = {
      {"name", stage_name},       {"set", stage_set},       {"get", stage_get},           {"outputs", stage_outputs},
      {"weights", stage_weights}, {"weight", stage_weight}, {"checksum", stage_checksum}, {NULL, NULL}};
  luaL_newmetatable(L, SP_LUA_HSTAGE);
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, calls);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
