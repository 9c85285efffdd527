/* SPDX-License-Identifier: MIT
 * names.c - names in large numbers: those of a folder, sorted, and which there have been, in a few bytes each. */
#include "lua/sys.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define NAMES "spcore.names"
#define DISTINCT "spcore.distinct"

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

typedef struct names {
  char *text; /* one behind the other, each with its ending zero */
  size_t *at; /* [n] where they begin */
  size_t n, bytes, cap_text, cap_at;
} names;

static int by_name(const void *a, const void *b, void *text) {
  return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

static bool append(names *s, const char *name) {
  size_t bytes = strlen(name) + 1;
  if (!sp_grow(&s->text, &s->cap_text, s->bytes + bytes, 1) || !sp_grow(&s->at, &s->cap_at, s->n + 1, sizeof *s->at))
    return false;
  memcpy(s->text + s->bytes, name, bytes);
  s->at[s->n++] = s->bytes;
  s->bytes += bytes;
  return true;
}

/* 0, or errno's number. */
static int read_folder(names *s, const char *path) {
  DIR *dir = opendir(path);
  int code = dir ? 0 : errno;
  while (dir && !code) {
    errno = 0;
    struct dirent *e = readdir(dir);
    if (!e) {
      code = errno;
      break;
    }
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !append(s, e->d_name)) code = ENOMEM;
  }
  if (dir) closedir(dir);
  if (!code && s->n) qsort_r(s->at, s->n, sizeof *s->at, by_name, s->text);
  return code;
}

static int names_free(lua_State *L) {
  names *s = luaL_checkudata(L, 1, NAMES);
  free(s->text);
  free(s->at);
  *s = (names){0};
  return 0;
}

/* names[i], from 1 on; nil behind the last */
static int names_index(lua_State *L) {
  const names *s = luaL_checkudata(L, 1, NAMES);
  lua_Integer i = luaL_checkinteger(L, 2);
  if (i < 1 || (size_t)i > s->n) lua_pushnil(L);
  else lua_pushstring(L, s->text + s->at[i - 1]);
  return 1;
}

static int names_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)((const names *)luaL_checkudata(L, 1, NAMES))->n);
  return 1;
}

static void set_metatable(lua_State *L, const char *kind, const luaL_Reg *functions) {
  if (luaL_newmetatable(L, kind)) luaL_setfuncs(L, functions, 0);
  lua_setmetatable(L, -2);
}

/* names(path) -> the names in a folder, sorted by their bytes: #names, names[i] | nil, message */
int sp_lua_names(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"__gc", names_free}, {"__index", names_index}, {"__len", names_len}, {NULL, NULL}};
  const char *path = luaL_checkstring(L, 1);
  names *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (names){0};
  set_metatable(L, NAMES, functions);
  int code = read_folder(s, path);
  if (!code) return 1;
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, strerror(code));
  return 2;
}

/* ---- which there have been --------------------------------------------------------------------------------------- */

/* Hashes in an open table, at most half full. Of two names with one hash, which nobody will see, the second counts as
 * known. */
typedef struct distinct {
  uint64_t *hashes; /* 0: free */
  size_t n, cap;    /* cap: a power of two */
} distinct;

static bool put(uint64_t *hashes, size_t cap, uint64_t h) {
  for (size_t i = h & (cap - 1);; i = (i + 1) & (cap - 1)) {
    if (hashes[i] == h) return false;
    if (hashes[i]) continue;
    hashes[i] = h;
    return true;
  }
}

static bool make_room(distinct *d) {
  size_t cap = d->cap ? 2 * d->cap : 1024;
  if (2 * d->n < d->cap) return true;
  uint64_t *more = sp_calloc(cap, sizeof *more);
  if (!more) return false;
  for (size_t i = 0; i < d->cap; i++)
    if (d->hashes[i]) put(more, cap, d->hashes[i]);
  free(d->hashes);
  d->hashes = more;
  d->cap = cap;
  return true;
}

static int distinct_free(lua_State *L) {
  distinct *d = luaL_checkudata(L, 1, DISTINCT);
  free(d->hashes);
  *d = (distinct){0};
  return 0;
}

/* d(text) -> whether it is the first time */
static int distinct_call(lua_State *L) {
  distinct *d = luaL_checkudata(L, 1, DISTINCT);
  size_t n;
  const char *text = luaL_checklstring(L, 2, &n);
  uint64_t h = sp_fnv64(SP_FNV64, text, n);
  if (!make_room(d)) return sp_lua_fail(L, "no memory for %d names", (int)d->n);
  bool fresh = put(d->hashes, d->cap, h ? h : 1);
  d->n += fresh;
  lua_pushboolean(L, fresh);
  return 1;
}

int sp_lua_distinct(lua_State *L) {
  static const luaL_Reg functions[] = {{"__gc", distinct_free}, {"__call", distinct_call}, {NULL, NULL}};
  distinct *d = lua_newuserdatauv(L, sizeof *d, 0);
  *d = (distinct){0};
  set_metatable(L, DISTINCT, functions);
  return 1;
}
