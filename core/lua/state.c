/* SPDX-License-Identifier: MIT
 * state.c - errors with the line of the user's script, and fields of tables. */
#include "lua/state.h"

#include <string.h>

#include "lua/signals.h"

sp_lua *sp_lua_of(lua_State *L) { return *(sp_lua **)lua_getextraspace(L); }

/* ---- errors ------------------------------------------------------------------------------------------------------ */

void sp_lua_where(lua_State *L) {
  const sp_lua *lua = sp_lua_of(L);
  size_t n = strlen(lua->internal);
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || ar.source[0] != '@') continue;
    if (strncmp(ar.source + 1, lua->internal, n) == 0) continue;
    lua_pushfstring(L, "%s:%d: ", ar.source + 1, ar.currentline);
    return;
  }
  lua_pushliteral(L, "");
}

int sp_lua_fail(lua_State *L, const char *fmt, ...) {
  sp_err err;
  va_list ap;
  va_start(ap, fmt);
  sp_vfail(&err, SP_E_INVALID, fmt, ap);
  va_end(ap);
  return sp_lua_raise(L, &err);
}

int sp_lua_raise(lua_State *L, const sp_err *err) {
  sp_err failure;
  if (err->status == SP_E_DEVICE) sp_lua_of(L)->device_failed = true;
  if (sp_ranks_failed(sp_lua_of(L)->env->ranks, &failure)) sp_lua_failure_told();
  sp_lua_where(L);
  lua_pushstring(L, err->msg);
  lua_concat(L, 2);
  return lua_error(L);
}

/* The error value of an exit: its address is its meaning. */
static char exit_mark;

int sp_lua_exit(lua_State *L, int code) {
  sp_lua_of(L)->exit_code = code;
  lua_pushlightuserdata(L, &exit_mark);
  return lua_error(L);
}

bool sp_lua_is_exit(lua_State *L, int idx) { return lua_touserdata(L, idx) == &exit_mark; }

void sp_lua_tell_ranks(sp_lua *lua) {
  sp_err err;
  sp_ranks *r = lua->env->ranks;
  if (!r || !lua->why.status || lua->told || sp_ranks_failed(r, &err) || sp_lua_interrupted()) return;
  lua->told = true;
  sp_ranks_fail(r, &lua->why);
}

/* ":12: " is somewhere in it. */
static bool has_line(const char *msg) {
  for (const char *p = msg; (p = strchr(p, ':')); p++) {
    size_t n = strspn(p + 1, "0123456789");
    if (n && p[n + 1] == ':') return true;
  }
  return false;
}

/* The one line that each script begins with is easily left out. */
static const char *without_require(lua_State *L, const char *msg) {
  static const char what[] = "attempt to index a nil value (global '";
  const char *at = strstr(msg, what);
  if (!at || (strcmp(at + sizeof what - 1, "sp')") != 0 && strcmp(at + sizeof what - 1, "spcore')") != 0)) return msg;
  const char *name = at[sizeof what + 1] == '\'' ? "sp" : "spcore";
  lua_pushlstring(L, msg, (size_t)(at - msg));
  return lua_pushfstring(L, "%s'%s' is not there: put local %s = require \"spcore\" in front", lua_tostring(L, -1),
                         name, name);
}

/* A message that names no line (assert's, or one from within a library function) gets that of the script. The traceback
 * is for debugging. */
int sp_lua_on_error(lua_State *L) {
  if (sp_lua_is_exit(L, 1)) return 1;
  const char *msg = lua_tostring(L, 1);
  if (!msg) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) {
      msg = lua_tostring(L, -1);
    } else {
      msg = lua_pushfstring(L, "error of type %s", luaL_typename(L, 1));
    }
  }
  msg = without_require(L, msg);
  if (!has_line(msg)) {
    sp_lua_where(L);
    msg = lua_pushfstring(L, "%s%s", lua_tostring(L, -1), msg);
  }
  if (sp_lua_of(L)->debug) luaL_traceback(L, L, msg, 1);
  else lua_pushstring(L, msg);
  return 1;
}

/* ---- options in tables ------------------------------------------------------------------------------------------- */

static int opt_get(lua_State *L, int idx, const char *key) {
  if (!lua_istable(L, idx)) {
    lua_pushnil(L);
    return LUA_TNIL;
  }
  return lua_getfield(L, idx, key);
}

void sp_lua_set_str(lua_State *L, const char *key, const char *v) {
  lua_pushstring(L, v);
  lua_setfield(L, -2, key);
}

void sp_lua_push_shape(lua_State *L, const sp_spec *s) {
  lua_createtable(L, s->ndim, 0);
  for (int i = 0; i < s->ndim; i++) {
    lua_pushinteger(L, s->shape[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

void sp_lua_set_int(lua_State *L, const char *key, lua_Integer v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, key);
}

const char *const sp_lua_precisions[] = {"fp32", "tf32", "bf16", NULL};

const char *sp_lua_opt_str(lua_State *L, int idx, const char *key, const char *def) {
  int type = opt_get(L, idx, key);
  if (type != LUA_TNIL && type != LUA_TSTRING)
    sp_lua_fail(L, "'%s' must be a string, got a %s", key, lua_typename(L, type));
  const char *s = type == LUA_TNIL ? def : lua_tostring(L, -1);
  lua_pop(L, 1);
  return s;
}

lua_Integer sp_lua_opt_int(lua_State *L, int idx, const char *key, lua_Integer def, lua_Integer min, lua_Integer max) {
  int type = opt_get(L, idx, key), ok;
  lua_Integer v = lua_tointegerx(L, -1, &ok);
  lua_pop(L, 1);
  if (type == LUA_TNIL) return def;
  if (!ok || type == LUA_TSTRING)
    sp_lua_fail(L, "'%s' must be a whole number, got a %s", key,
                type == LUA_TNUMBER ? "number with a fraction" : lua_typename(L, type));
  if (v < min || v > max)
    sp_lua_fail(L, "'%s': %lld is not in %lld..%lld", key, (long long)v, (long long)min, (long long)max);
  return v;
}

bool sp_lua_opt_bool(lua_State *L, int idx, const char *key, bool def) {
  int type = opt_get(L, idx, key);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN)
    sp_lua_fail(L, "'%s' must be true or false, got a %s", key, lua_typename(L, type));
  bool v = type == LUA_TNIL ? def : lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

int sp_lua_opt_choice(lua_State *L, int table, const char *key, const char *const *words, int def) {
  const char *s = sp_lua_opt_str(L, table, key, def < 0 ? NULL : words[def]);
  if (!s) return -1;
  for (int i = 0; words[i]; i++)
    if (!strcmp(s, words[i])) return i;
  luaL_Buffer list;
  luaL_buffinit(L, &list);
  for (int i = 0; words[i]; i++) {
    if (i) luaL_addstring(&list, ", ");
    luaL_addstring(&list, words[i]);
  }
  luaL_pushresult(&list);
  return sp_lua_fail(L, "%s '%s': choose one of %s", key, s, lua_tostring(L, -1));
}
