/* SPDX-License-Identifier: MIT
 * hand.c - a device that a script uses itself, its streams and events; friendlier in scripts/spcore/hand.lua. */
#include "lua/hand.h"

#include <spcore/ext/precision.h>

#include <string.h>

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static void *check(lua_State *L, int idx, const char *meta, const char *what) {
  void **object = luaL_testudata(L, idx, meta);
  if (!object) sp_lua_fail(L, "%s is wanted here, got a %s", what, luaL_typename(L, idx));
  if (!*object) sp_lua_fail(L, "%s is wanted here, but this one is closed", what);
  return *object;
}

sp_hand *sp_lua_check_hand(lua_State *L, int idx) { return check(L, idx, SP_LUA_HAND, "a device"); }
sp_hstream *sp_lua_check_stream(lua_State *L, int idx) { return check(L, idx, SP_LUA_STREAM, "a stream"); }
sp_htensor *sp_lua_check_tensor(lua_State *L, int idx) { return check(L, idx, SP_LUA_TENSOR, "a tensor"); }
sp_hstage *sp_lua_check_hstage(lua_State *L, int idx) { return check(L, idx, SP_LUA_HSTAGE, "a stage made by hand"); }
static sp_hevent *check_event(lua_State *L, int idx) { return check(L, idx, SP_LUA_EVENT, "an event"); }

sp_hand *sp_lua_hand_of(lua_State *L, int idx) {
  lua_getiuservalue(L, idx, 1);
  return sp_lua_check_hand(L, -1);
}

void **sp_lua_hand_object(lua_State *L, int hand_idx, const char *meta) {
  hand_idx = lua_absindex(L, hand_idx);
  void **object = lua_newuserdatauv(L, sizeof *object, 1);
  *object = NULL;
  lua_pushvalue(L, hand_idx);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, meta);
  return object;
}

void sp_lua_hand_remember(lua_State *L, int hand_idx, void *object) {
  lua_getiuservalue(L, hand_idx, 1);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, object);
  lua_pop(L, 1);
}

bool sp_lua_hand_find(lua_State *L, int hand_idx, void *object) {
  lua_getiuservalue(L, hand_idx, 1);
  bool there = lua_rawgetp(L, -1, object) == LUA_TUSERDATA;
  lua_remove(L, -2);
  if (!there) lua_pop(L, 1);
  return there;
}

const char *sp_lua_hand_where(lua_State *L, const sp_hand *h, bool always) {
  static char text[512];
  size_t n;
  *text = 0;
  if (!always && !sp_hand_checks(h)) return text;
  sp_lua_where(L);
  const char *s = lua_tolstring(L, -1, &n);
  if (n > 2 && n < sizeof text) {
    memcpy(text, s, n - 2);
    text[n - 2] = 0;
  }
  lua_pop(L, 1);
  return text;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

/* hand{ device =, precision =, seed =, order =, init =, check_races = } */
int sp_lua_hand_new(lua_State *L) {
  sp_err err;
  const sp_hand_opts o = {.device = sp_lua_opt_str(L, 1, "device", NULL),
                          .init = sp_lua_opt_str(L, 1, "init", NULL),
                          .precision = sp_lua_opt_choice(L, 1, "precision", sp_lua_precisions, SP_PRECISION_FP32),
                          .seed = (uint64_t)sp_lua_opt_int(L, 1, "seed", 1, 0, LUA_MAXINTEGER),
                          .order = (uint64_t)sp_lua_opt_int(L, 1, "order", 0, 0, LUA_MAXINTEGER),
                          .check_races = sp_lua_opt_bool(L, 1, "check_races", false)};
  sp_hand **h = lua_newuserdatauv(L, sizeof *h, 1);
  *h = NULL;
  luaL_setmetatable(L, SP_LUA_HAND);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, -2, 1);
  if (sp_hand_new(h, sp_lua_of(L)->env, &o, &err)) {
    *h = NULL;
    return sp_lua_raise(L, &err);
  }
  return 1;
}

static int hand_close(lua_State *L) {
  sp_hand_close(sp_lua_check_hand(L, 1));
  return 0;
}

static int hand_gc(lua_State *L) {
  sp_hand **h = luaL_checkudata(L, 1, SP_LUA_HAND);
  if (*h) sp_hand_drop(*h);
  *h = NULL;
  return 0;
}

static int hand_device(lua_State *L) {
  lua_pushstring(L, sp_hand_device(sp_lua_check_hand(L, 1)));
  return 1;
}

static int hand_is_open(lua_State *L) {
  sp_hand **h = luaL_checkudata(L, 1, SP_LUA_HAND);
  lua_pushboolean(L, *h && sp_hand_is_open(*h));
  return 1;
}

/* device:stream(name or nil, priority) */
static int hand_stream(lua_State *L) {
  sp_hand *h = sp_lua_check_hand(L, 1);
  const char *name = luaL_optstring(L, 2, NULL);
  int priority = (int)luaL_optinteger(L, 3, 0);
  sp_hstream *s;
  sp_err err;
  void **object = sp_lua_hand_object(L, 1, SP_LUA_STREAM);
  if (sp_hstream_new(h, name, priority, &s, &err)) return sp_lua_raise(L, &err);
  *object = s;
  return 1;
}

/* device:event(timing) */
static int hand_event(lua_State *L) {
  sp_hand *h = sp_lua_check_hand(L, 1);
  sp_hevent *e;
  sp_err err;
  void **object = sp_lua_hand_object(L, 1, SP_LUA_EVENT);
  if (sp_hevent_new(h, lua_toboolean(L, 2), &e, &err)) return sp_lua_raise(L, &err);
  *object = e;
  return 1;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static int stream_name(lua_State *L) {
  lua_pushstring(L, sp_hstream_name(sp_lua_check_stream(L, 1)));
  return 1;
}

/* stream:record(event) -> event */
static int stream_record(lua_State *L) {
  sp_hstream *s = sp_lua_check_stream(L, 1);
  sp_err err;
  if (sp_hstream_record(s, check_event(L, 2), "", &err)) return sp_lua_raise(L, &err);
  lua_settop(L, 2);
  return 1;
}

static int stream_wait(lua_State *L) {
  sp_hstream *s = sp_lua_check_stream(L, 1);
  sp_err err;
  if (sp_hstream_wait(s, check_event(L, 2), "", &err)) return sp_lua_raise(L, &err);
  return 0;
}

static int stream_sync(lua_State *L) {
  sp_err err;
  if (sp_hstream_sync(sp_lua_check_stream(L, 1), &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* Once for each line of the script. */
static void warn_pageable(lua_State *L, const char *which) {
  const char *where = sp_lua_hand_where(L, NULL, true);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "spcore.pageable");
  if (lua_getfield(L, -1, where) == LUA_TNIL) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -3, where);
    sp_log(
        SP_LOG_WARN,
        "%s: copy with '%s', which is pageable: the driver moves it through a pinned buffer of its own, and the host "
        "waits until it is done, so that nothing it would submit meanwhile overlaps; take at = \"pinned\"",
        where, which);
  }
  lua_pop(L, 2);
}

/* stream:copy(dst, src) */
static int stream_copy(lua_State *L) {
  sp_hstream *s = sp_lua_check_stream(L, 1);
  sp_htensor *dst = sp_lua_check_tensor(L, 2), *src = sp_lua_check_tensor(L, 3);
  const sp_hand *h = sp_lua_hand_of(L, 1);
  bool pageable;
  sp_err err;
  if (sp_hstream_copy(s, dst, src, sp_lua_hand_where(L, h, false), &pageable, &err)) return sp_lua_raise(L, &err);
  if (pageable) warn_pageable(L, sp_htensor_name(sp_htensor_at(src) == SP_AT_HOST_PAGEABLE ? src : dst));
  return 0;
}

static int stream_close(lua_State *L) {
  sp_err err;
  if (sp_hstream_close(sp_lua_check_stream(L, 1), &err)) return sp_lua_raise(L, &err);
  return 0;
}

static int stream_gc(lua_State *L) {
  sp_hstream **s = luaL_checkudata(L, 1, SP_LUA_STREAM);
  if (*s) sp_hstream_drop(*s);
  *s = NULL;
  return 0;
}

/* At the end of a block that an error may have left: its own failure must not hide that one. */
static int stream_end(lua_State *L) {
  sp_err err;
  if (sp_hstream_close(sp_lua_check_stream(L, 1), &err) && lua_isnil(L, 2)) return sp_lua_raise(L, &err);
  return 0;
}

static int stream_tostring(lua_State *L) {
  lua_pushfstring(L, "stream '%s'", sp_hstream_name(sp_lua_check_stream(L, 1)));
  return 1;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static int event_sync(lua_State *L) {
  sp_err err;
  if (sp_hevent_sync(check_event(L, 1), &err)) return sp_lua_raise(L, &err);
  return 0;
}

static int event_query(lua_State *L) {
  bool complete;
  sp_err err;
  if (sp_hevent_query(check_event(L, 1), &complete, &err)) return sp_lua_raise(L, &err);
  lua_pushboolean(L, complete);
  return 1;
}

/* from:elapsed(to) -> milliseconds */
static int event_elapsed(lua_State *L) {
  double ms;
  sp_err err;
  if (sp_hevent_elapsed(check_event(L, 1), check_event(L, 2), &ms, &err)) return sp_lua_raise(L, &err);
  lua_pushnumber(L, ms);
  return 1;
}

static int event_close(lua_State *L) {
  sp_err err;
  if (sp_hevent_close(check_event(L, 1), &err)) return sp_lua_raise(L, &err);
  return 0;
}

static int event_gc(lua_State *L) {
  sp_hevent **e = luaL_checkudata(L, 1, SP_LUA_EVENT);
  if (*e) sp_hevent_drop(*e);
  *e = NULL;
  return 0;
}

/* ---- metatables -------------------------------------------------------------------------------------------------- */

static void new_type(lua_State *L, const char *name, const luaL_Reg *meta) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, meta, 0);
  lua_newtable(L);
}

static void end_type(lua_State *L) {
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

void sp_lua_open_hand(lua_State *L) {
  static const luaL_Reg hand_meta[] = {{"__gc", hand_gc}, {"__close", hand_close}, {NULL, NULL}};
  static const luaL_Reg hand_calls[] = {{"close", hand_close},   {"device", hand_device}, {"is_open", hand_is_open},
                                        {"stream", hand_stream}, {"event", hand_event},   {NULL, NULL}};
  static const luaL_Reg stream_meta[] = {
      {"__gc", stream_gc}, {"__close", stream_end}, {"__tostring", stream_tostring}, {NULL, NULL}};
  static const luaL_Reg stream_calls[] = {{"name", stream_name}, {"record", stream_record}, {"wait", stream_wait},
                                          {"sync", stream_sync}, {"copy", stream_copy},     {"close", stream_close},
                                          {NULL, NULL}};
  static const luaL_Reg event_meta[] = {{"__gc", event_gc}, {"__close", event_close}, {NULL, NULL}};
  static const luaL_Reg event_calls[] = {
      {"sync", event_sync}, {"query", event_query}, {"elapsed", event_elapsed}, {"close", event_close}, {NULL, NULL}};
  new_type(L, SP_LUA_HAND, hand_meta);
  luaL_setfuncs(L, hand_calls, 0);
  luaL_setfuncs(L, sp_lua_tensor_makers, 0);
  luaL_setfuncs(L, sp_lua_stage_makers, 0);
  end_type(L);
  new_type(L, SP_LUA_STREAM, stream_meta);
  luaL_setfuncs(L, stream_calls, 0);
  luaL_setfuncs(L, sp_lua_stage_calls, 0);
  end_type(L);
  new_type(L, SP_LUA_EVENT, event_meta);
  luaL_setfuncs(L, event_calls, 0);
  end_type(L);
  sp_lua_open_tensor(L);
  sp_lua_open_hstage(L);
}
