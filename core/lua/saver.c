/* SPDX-License-Identifier: MIT
 * saver.c - snapshots of the weights as Lua objects: taken between two steps, written on a thread of their own. */
#include <errno.h>
#include <lualib.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "lua/graph.h"
#include "lua/signals.h"

#define SP_LUA_SNAPSHOT "spcore.snapshot"
#define MAX_FILES 4

typedef struct saver {
  sp_snapshot *snapshot;
  char *path;
  int files[MAX_FILES]; /* of which the snapshot's file speaks: they are on the disk before it */
  int n_files;
  pthread_t thread;
  bool started, joined;
  atomic_bool over;
  sp_err err; /* with status SP_OK: written */
} saver;

static saver *check(lua_State *L) { return luaL_checkudata(L, 1, SP_LUA_SNAPSHOT); }

static void *write_it(void *arg) {
  saver *s = arg;
  int st = SP_OK;
  for (int i = 0; i < s->n_files && !st; i++)
    if (fsync(s->files[i]) && errno != EINVAL && errno != EROFS) /* a pipe cannot */
      st = sp_fail(&s->err, SP_E_IO, "%s: what it speaks of cannot be written: %s", s->path, strerror(errno));
  if (!st) st = sp_snapshot_write(s->snapshot, s->path, &s->err);
  s->err.status = st;
  atomic_store(&s->over, true);
  return NULL;
}

static void join(saver *s) {
  if (!s->started || s->joined) return;
  pthread_join(s->thread, NULL);
  s->joined = true;
  sp_snapshot_free(s->snapshot); /* it is large */
  s->snapshot = NULL;
}

static int push_outcome(lua_State *L, const saver *s) {
  lua_pushboolean(L, s->err.status == SP_OK);
  if (s->err.status == SP_OK) return 1;
  lua_pushstring(L, s->err.msg);
  return 2;
}

/* s:start(file, ...): writes it; what was written to the files is made safe before. Once. Of a rank whose business
 * files are not it is written at once. */
static int saver_start(lua_State *L) {
  saver *s = check(L);
  int n = lua_gettop(L) - 1;
  if (s->started) return sp_lua_fail(L, "a snapshot is written once");
  luaL_argcheck(L, n <= MAX_FILES, 1 + MAX_FILES, "too many files");
  if (!s->snapshot) {
    s->started = s->joined = true;
    atomic_store(&s->over, true);
    return 0;
  }
  for (int i = 0; i < n; i++) {
    luaL_Stream *file = luaL_checkudata(L, 2 + i, LUA_FILEHANDLE);
    int fd = file->closef && !fflush(file->f) ? dup(fileno(file->f)) : -1;
    if (fd < 0) return sp_lua_fail(L, "%s: %s", s->path, strerror(errno));
    s->files[s->n_files++] = fd;
  }
  int code = sp_thread_start(&s->thread, "sp-save", write_it, s);
  if (code) return sp_lua_fail(L, "%s: no thread: %s", s->path, strerror(code));
  s->started = true;
  return 0;
}

/* s:poll() -> nil while it is written; true | false, why */
static int saver_poll(lua_State *L) {
  saver *s = check(L);
  if (!s->started || !atomic_load(&s->over)) return 0;
  join(s);
  return push_outcome(L, s);
}

/* Other ranks may come to wait for this one, and be told what it is at;
 * what is in flight still says where it is, too. */
static void say_busy(const saver *s, sp_ranks *ranks) {
  const char *name = strrchr(s->path, '/');
  char text[64];
  snprintf(text, sizeof text, "the save of %.48s", name ? name + 1 : s->path);
  for (; ranks && !atomic_load(&s->over); usleep(10000)) sp_ranks_busy(ranks, text);
}

/* s:wait() -> true | false, why */
static int saver_wait(lua_State *L) {
  saver *s = check(L);
  if (!s->started) return sp_lua_fail(L, "a snapshot that nobody writes");
  say_busy(s, sp_lua_of(L)->env->ranks);
  join(s);
  sp_lua_was_long(L);
  return push_outcome(L, s);
}

static int saver_free(lua_State *L) {
  saver *s = check(L);
  join(s);
  sp_snapshot_free(s->snapshot);
  for (int i = 0; i < s->n_files; i++) close(s->files[i]);
  free(s->path);
  s->snapshot = NULL;
  s->path = NULL;
  s->n_files = 0;
  return 0;
}

static void push_metatable(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"start", saver_start}, {"poll", saver_poll}, {"wait", saver_wait}, {"__gc", saver_free}, {NULL, NULL}};
  if (!luaL_newmetatable(L, SP_LUA_SNAPSHOT)) return;
  luaL_setfuncs(L, functions, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
}

/* g:snapshot(path, key, value, averages) -> the weights, statistics and moments as they are, with one entry of
 * metadata; averages: with them in the place of the weights */
int sp_lua_snapshot(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const char *path = luaL_checkstring(L, 2);
  sp_meta meta = {luaL_checkstring(L, 3), luaL_checkstring(L, 4)};
  sp_err err;
  saver *s = lua_newuserdatauv(L, sizeof *s, 0);
  memset(s, 0, sizeof *s);
  push_metatable(L);
  lua_setmetatable(L, -2);
  if (!(s->path = sp_strdup(path))) return sp_lua_fail(L, "no memory for a path");
  unsigned what = SP_SAVE_OPTIMIZER | (lua_toboolean(L, 5) ? SP_SAVE_AVERAGES : 0);
  int rc = sp_engine_snapshot(lg->e, &s->snapshot, what, path, &meta, 1, &err);
  sp_lua_was_long(L);
  if (rc) return sp_lua_raise(L, &err);
  return 1;
}

static void add_entry(void *arg, const char *key, const char *value) {
  lua_State *L = arg;
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

/* examine(path) -> the metadata of a file that is whole | nil, why */
int sp_lua_examine(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  sp_err err;
  lua_newtable(L);
  int rc = sp_snapshot_examine(sp_lua_of(L)->env->reg, path, add_entry, L, &err);
  sp_lua_was_long(L);
  if (!rc) return 1;
  lua_pushnil(L);
  lua_pushstring(L, err.msg);
  return 2;
}
