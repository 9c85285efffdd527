/* SPDX-License-Identifier: MIT
 * value.c - a Lua table as stage parameters, free of Lua. */
#include "lua/value.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

#define MAX_DEPTH 16
#define MAX_VALUES 100000

#define BOX "spcore.value"

/* The way from the outermost table to the value at hand. */
typedef struct way {
  const struct way *up;
  const char *key; /* or NULL: */
  lua_Integer index;
  const void *table; /* identity of the table at this place */
  int depth;
} way;

typedef struct walk {
  lua_State *L;
  sp_err *err;
  size_t values;
} walk;

static void put_way(sp_sb *sb, const way *w) {
  if (!w->up) return;
  put_way(sb, w->up);
  if (!w->key) sp_sb_putf(sb, "[%lld]", (long long)w->index);
  else sp_sb_putf(sb, "%s%s", sb->n ? "." : "", w->key);
}

static int refuse(walk *k, const way *w, const char *fmt, ...) SP_PRINTF(3, 4);
static int refuse(walk *k, const way *w, const char *fmt, ...) {
  sp_sb sb = {0};
  va_list ap;
  va_start(ap, fmt);
  sp_vfail(k->err, SP_E_INVALID, fmt, ap);
  va_end(ap);
  put_way(&sb, w);
  if (sb.n) sp_prefix(k->err, "parameter '%s'", sp_sb_str(&sb));
  sp_sb_free(&sb);
  return k->err->status;
}

static int convert(walk *k, int idx, sp_value *v, way *w);

static int convert_key(walk *k, int key, lua_Integer n_items, const way *w, bool *item) {
  lua_State *L = k->L;
  *item = false;
  if (lua_type(L, key) == LUA_TSTRING) {
    size_t n;
    const char *s = lua_tolstring(L, key, &n);
    return strlen(s) == n ? SP_OK : refuse(k, w, "a name holds a zero byte");
  }
  if (lua_isinteger(L, key)) {
    lua_Integer i = lua_tointeger(L, key);
    *item = i >= 1 && i <= n_items;
    return *item ? SP_OK : refuse(k, w, "[%lld] stands alone: a list has the places 1..n without holes", (long long)i);
  }
  return refuse(k, w, "a key of type %s: keys are names or the places 1..n of a list", luaL_typename(L, key));
}

/* The table at the top of the stack. */
static int convert_table(walk *k, sp_value *v, way *w) {
  lua_State *L = k->L;
  int t = lua_gettop(L);
  w->table = lua_topointer(L, t);
  for (const way *u = w->up; u; u = u->up)
    if (u->table == w->table) return refuse(k, w, "the table holds itself");
  if (w->depth > MAX_DEPTH) return refuse(k, w, "tables are nested deeper than %d", MAX_DEPTH);
  if (!lua_checkstack(L, 8)) return sp_nomem(k->err, 0, "parameters");
  v->type = SP_V_TABLE;
  lua_Unsigned raw = lua_rawlen(L, t);
  if (raw > MAX_VALUES) return refuse(k, w, "more than %d values", MAX_VALUES);
  lua_Integer n = (lua_Integer)raw;
  int rc = SP_OK;
  for (lua_Integer i = 1; i <= n && rc == SP_OK; i++) {
    way next = {.up = w, .index = i, .depth = w->depth + 1};
    lua_rawgeti(L, t, i);
    sp_value *item = sp_value_push(v);
    rc = !item              ? sp_nomem(k->err, 0, "parameters")
         : lua_isnil(L, -1) ? refuse(k, &next, "nil: a list has the places 1..n without holes")
                            : convert(k, -1, item, &next);
    lua_pop(L, 1);
  }
  if (rc != SP_OK) return rc;
  lua_pushnil(L);
  while (lua_next(L, t)) {
    bool item;
    rc = convert_key(k, -2, n, w, &item);
    if (rc == SP_OK && !item) {
      way next = {.up = w, .key = lua_tostring(L, -2), .depth = w->depth + 1};
      sp_value *field = sp_value_put(v, next.key);
      rc = field ? convert(k, -1, field, &next) : sp_nomem(k->err, 0, "parameters");
    }
    if (rc != SP_OK) {
      lua_pop(L, 2);
      return rc;
    }
    lua_pop(L, 1);
  }
  return SP_OK;
}

static int convert(walk *k, int idx, sp_value *v, way *w) {
  lua_State *L = k->L;
  if (++k->values > MAX_VALUES) return refuse(k, w, "more than %d values", MAX_VALUES);
  switch (lua_type(L, idx)) {
    case LUA_TBOOLEAN:
      v->type = SP_V_BOOL;
      v->i = lua_toboolean(L, idx);
      return SP_OK;
    case LUA_TNUMBER: {
      double d = lua_tonumber(L, idx);
      v->d = d;
      /* size / 2 is a float in Lua, also where it is whole */
      if (lua_isinteger(L, idx) || (d == floor(d) && fabs(d) < 0x1p53)) {
        v->type = SP_V_INT;
        v->i = lua_isinteger(L, idx) ? lua_tointeger(L, idx) : (int64_t)d;
      } else {
        v->type = SP_V_NUM;
      }
      return SP_OK;
    }
    case LUA_TSTRING: {
      size_t n;
      const char *s = lua_tolstring(L, idx, &n);
      if (strlen(s) != n) return refuse(k, w, "the text holds a zero byte");
      return sp_value_set_str(v, s) ? SP_OK : sp_nomem(k->err, n, "parameters");
    }
    case LUA_TTABLE: {
      if (!lua_checkstack(L, 4)) return sp_nomem(k->err, 0, "parameters");
      lua_pushvalue(L, idx);
      int rc = convert_table(k, v, w);
      lua_pop(L, 1);
      return rc;
    }
    case LUA_TUSERDATA:
      if (luaL_testudata(L, idx, LUA_FILEHANDLE)) return refuse(k, w, "an open file cannot be a parameter");
      return refuse(k, w, "a stage or its output cannot be a parameter");
    default: return refuse(k, w, "a %s cannot be a parameter", luaL_typename(L, idx));
  }
}

int sp_lua_value(lua_State *L, int idx, sp_value *v, sp_err *err) {
  walk k = {.L = L, .err = err};
  way w = {0};
  if (lua_isnoneornil(L, idx)) {
    v->type = SP_V_TABLE;
    return SP_OK;
  }
  if (!lua_istable(L, idx))
    return sp_fail(err, SP_E_INVALID, "parameters must be a table, got a %s", luaL_typename(L, idx));
  return convert(&k, lua_absindex(L, idx), v, &w);
}

static int box_gc(lua_State *L) {
  sp_value_free(lua_touserdata(L, 1));
  return 0;
}

sp_value *sp_lua_value_box(lua_State *L) {
  sp_value *v = lua_newuserdatauv(L, sizeof *v, 0);
  memset(v, 0, sizeof *v);
  if (luaL_newmetatable(L, BOX)) {
    lua_pushcfunction(L, box_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return v;
}
