/* SPDX-License-Identifier: MIT
 * core.c - "spcore.core": what concerns the process, and how graphs are made. */
#include "lua/core.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include <spcore/checksum.h>

#include "base/cure.h"
#include "lua/graph.h"
#include "lua/hand.h"
#include "lua/signals.h"

/* env() -> { script_dir =, plugin_dir =, threads =, version =, abi =, script =, script_path =, debug =, schedule =,
 * picture =, rank =, local_rank =, ranks = } */
static int core_env(lua_State *L) {
  const sp_lua *lua = sp_lua_of(L);
  lua_createtable(L, 0, 13);
  sp_lua_set_str(L, "script_dir", lua->env->script_dir);
  sp_lua_set_str(L, "plugin_dir", lua->env->plugin_dir);
  sp_lua_set_str(L, "script", lua->script);
  sp_lua_set_str(L, "script_path", lua->script_path);
  sp_lua_set_str(L, "schedule", lua->schedule);
  sp_lua_set_str(L, "picture", lua->picture);
  sp_lua_set_str(L, "version", SP_VERSION);
  lua_pushfstring(L, "%d.%d", SP_ABI_MAJOR, SP_ABI_MINOR);
  lua_setfield(L, -2, "abi");
  sp_lua_set_int(L, "rank", sp_ranks_opts(lua->env->ranks)->rank);
  sp_lua_set_int(L, "local_rank", sp_ranks_opts(lua->env->ranks)->local_rank);
  sp_lua_set_int(L, "ranks", sp_ranks_opts(lua->env->ranks)->ranks);
  lua_pushinteger(L, lua->env->threads);
  lua_setfield(L, -2, "threads");
  lua_pushboolean(L, lua->debug);
  lua_setfield(L, -2, "debug");
  return 1;
}

/* loaded_files() -> a list of what loadfile and dofile were asked for, as the script named it */
static int core_loaded_files(lua_State *L) {
  lua_Integer n = 0;
  lua_settop(L, 0);
  lua_newtable(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, SP_LUA_FILES);
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, 1, ++n);
  }
  lua_pop(L, 1);
  return 1;
}

/* argv() -> what follows the script's name */
static int core_argv(lua_State *L) {
  const sp_lua *lua = sp_lua_of(L);
  lua_createtable(L, lua->argc, 0);
  for (int i = 0; i < lua->argc; i++) {
    lua_pushstring(L, lua->argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* set_threads(n): the team size of graphs made from now on */
static int core_set_threads(lua_State *L) {
  sp_env *env = sp_lua_of(L)->env;
  lua_Integer n = luaL_checkinteger(L, 1);
  luaL_argcheck(L, n >= 1 && n <= 1024, 1, "1..1024 threads");
  env->threads = env->host.threads = (int)n;
  return 0;
}

static int core_set_debug(lua_State *L) {
  sp_lua_of(L)->debug = lua_toboolean(L, 1);
  return 0;
}

/* only_prints(): what follows is of no use without a reader, so that it ends as other programs do where that goes
 * away */
static int core_only_prints(lua_State *L) {
  (void)L;
  signal(SIGPIPE, SIG_DFL);
  return 0;
}

/* cure_option([STAGE.NAME, OPTION]): what messages propose to type */
static int core_cure_option(lua_State *L) {
  const char *param = luaL_optstring(L, 1, NULL);
  sp_cure_option(param, param ? luaL_checkstring(L, 2) : NULL);
  return 0;
}

/* load_plugin(path) -> true | nil, message */
static int core_load_plugin(lua_State *L) {
  const sp_plugin_file *file;
  sp_err err;
  if (sp_registry_load(sp_lua_of(L)->env->reg, luaL_checkstring(L, 1), &file, &err)) {
    lua_pushnil(L);
    lua_pushstring(L, err.msg);
    return 2;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* count_device(type) -> how many there are, at least 1 | nil, why not | nil, nil: nothing is known of such a type */
static int core_count_device(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  const sp_device_type *type;
  sp_ctx_holder h;
  sp_err err;
  int n = 0;
  lua_pushnil(L);
  if (sp_registry_device(sp_lua_of(L)->env->reg, name, &type, &err)) {
    if (err.status == SP_E_NOTFOUND) lua_pushnil(L);
    else lua_pushstring(L, err.msg);
    return 2;
  }
  if (type->count(sp_ctx_for(&h, name, &err), &n) || n < 1) {
    lua_pushstring(L, *err.msg ? err.msg : "none was found");
    return 2;
  }
  lua_pushinteger(L, n);
  return 1;
}

/* device_name(text) -> type, index | nil, what is wanted */
static int core_device_name(lua_State *L) {
  sp_device_name name;
  sp_err err;
  if (sp_device_name_parse(luaL_checkstring(L, 1), &name, &err)) {
    lua_pushnil(L);
    lua_pushstring(L, err.msg);
    return 2;
  }
  lua_pushstring(L, name.type);
  lua_pushinteger(L, name.index);
  return 2;
}

/* knows_format(path) -> true | nil, message */
static int core_knows_format(lua_State *L) {
  const sp_format_type *type;
  sp_err err;
  if (sp_registry_format(sp_lua_of(L)->env->reg, luaL_checkstring(L, 1), &type, &err)) {
    lua_pushnil(L);
    lua_pushstring(L, err.msg);
    return 2;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* knows_comm(name) -> true | nil, message */
static int core_knows_comm(lua_State *L) {
  const sp_comm_type *type;
  sp_err err;
  if (sp_registry_comm(sp_lua_of(L)->env->reg, luaL_checkstring(L, 1), &type, &err)) {
    lua_pushnil(L);
    lua_pushstring(L, err.msg);
    return 2;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* write_picture(path, svg): as the format of that extension */
static int core_write_picture(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  size_t n;
  const char *svg = luaL_checklstring(L, 2, &n);
  const sp_entry entry = {
      .name = "svg", .spec = {.dtype = SP_U8, .ndim = 1, .shape = {(int64_t)n}}, .data = (void *)svg};
  const sp_format_type *type;
  sp_ctx_holder h;
  sp_err err;
  if (sp_registry_format(sp_lua_of(L)->env->reg, path, &type, &err) ||
      type->write(sp_ctx_for(&h, path, &err), path, &entry, 1, NULL, 0))
    return sp_lua_raise(L, &err);
  return 0;
}

/* nearest(word, names) -> name | nil */
static int core_nearest(lua_State *L) {
  const char *word = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t n = lua_rawlen(L, 2);
  if (n > 10000) n = 10000;
  luaL_checkstack(L, (int)n + 4, "too many names");
  const char **names = lua_newuserdatauv(L, (n + 1) * sizeof *names, 0);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    names[i] = luaL_checkstring(L, -1); /* stays on the stack, so the text stays alive */
  }
  names[n] = NULL;
  lua_pushstring(L, sp_nearest(word, names));
  return 1;
}

/* checksum(text) -> 16 hexadecimal digits */
static int core_checksum(lua_State *L) {
  char hex[17];
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  snprintf(hex, sizeof hex, "%016" PRIx64, sp_checksum(text, n));
  lua_pushstring(L, hex);
  return 1;
}

/* fail(message): raises with the line of the user's script */
static int core_fail(lua_State *L) {
  sp_lua_where(L);
  luaL_checkstring(L, 1);
  lua_pushvalue(L, 1);
  lua_concat(L, 2);
  return lua_error(L);
}

/* where() -> "train.lua:12" or "" */
static int core_where(lua_State *L) {
  sp_lua_where(L);
  size_t n;
  const char *s = lua_tolstring(L, -1, &n);
  lua_pushlstring(L, s, n > 2 ? n - 2 : 0);
  return 1;
}

static int core_exit(lua_State *L) { return sp_lua_exit(L, (int)luaL_optinteger(L, 1, 0)); }

/* kind(value) -> "node", "output" or nil */
static int core_kind(lua_State *L) {
  lua_pushstring(L, sp_lua_kind(L, 1));
  return 1;
}

/* log("error" | "warn" | "info" | "debug", message) */
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

static int core_log(lua_State *L) {
  int level = luaL_checkoption(L, 1, NULL, levels);
  sp_log(level, "%s", luaL_checkstring(L, 2));
  return 0;
}

/* log_level(level) -> the one that it was */
static int core_log_level(lua_State *L) {
  lua_pushstring(L, levels[sp_log_level(luaL_checkoption(L, 1, NULL, levels))]);
  return 1;
}

/* interrupted() -> the signal's number or nil */
static int core_interrupted(lua_State *L) {
  int sig = sp_lua_interrupted();
  if (sig) lua_pushinteger(L, sig);
  else lua_pushnil(L);
  return 1;
}

/* warned() -> the number of a SIGUSR1 or SIGUSR2 that wants a checkpoint, once, or nil */
static int core_warned(lua_State *L) {
  int sig = sp_lua_warned();
  if (sig) lua_pushinteger(L, sig);
  else lua_pushnil(L);
  return 1;
}

/* warnings_save(yes): SIGUSR1 and SIGUSR2 do not end the script, which asks warned() */
static int core_warnings_save(lua_State *L) {
  sp_lua_warnings_save(lua_toboolean(L, 1));
  return 0;
}

/* broadcast(text) -> that of rank 0, on all ranks of the job; others may give nil */
static int core_broadcast(lua_State *L) {
  sp_ranks *ranks = sp_lua_of(L)->env->ranks;
  bool first = sp_ranks_opts(ranks)->rank == 0;
  size_t n = 0;
  const char *text = first ? luaL_checklstring(L, 1, &n) : NULL;
  uint64_t bytes = n;
  sp_err err;
  if (sp_ranks_broadcast(ranks, &bytes, sizeof bytes, &err)) return sp_lua_raise(L, &err);
  luaL_Buffer b;
  char *to = luaL_buffinitsize(L, &b, bytes ? (size_t)bytes : 1);
  if (first) memcpy(to, text, n);
  if (bytes && sp_ranks_broadcast(ranks, to, (size_t)bytes, &err)) return sp_lua_raise(L, &err);
  luaL_pushresultsize(&b, (size_t)bytes);
  return 1;
}

#define GATHER_MOST (64 << 20) /* bytes of the longest */

/* gather(text) -> a list of the texts of all ranks, on all of them; nil: one is longer than 64 MiB. Each is as long as
 * the longest on its way. */
static int core_gather(lua_State *L) {
  sp_ranks *ranks = sp_lua_of(L)->env->ranks;
  const sp_rank_opts *o = sp_ranks_opts(ranks);
  size_t n, most = 0;
  const char *text = luaL_checklstring(L, 1, &n);
  uint64_t *sizes = lua_newuserdatauv(L, (size_t)o->ranks * sizeof *sizes, 0), mine = n;
  sp_err err;
  if (sp_ranks_exchange(ranks, &mine, sizeof mine, sizes, &err)) return sp_lua_raise(L, &err);
  for (int r = 0; r < o->ranks; r++) most = sizes[r] > most ? (size_t)sizes[r] : most;
  if (most > GATHER_MOST) return 0;
  char *all = lua_newuserdatauv(L, (size_t)o->ranks * most + 1, 0);
  memcpy(all + (size_t)o->rank * most, text, n);
  if (most && sp_ranks_exchange(ranks, all + (size_t)o->rank * most, most, all, &err)) return sp_lua_raise(L, &err);
  lua_createtable(L, o->ranks, 0);
  for (int r = 0; r < o->ranks; r++) {
    lua_pushlstring(L, all + (size_t)r * most, (size_t)sizes[r]);
    lua_rawseti(L, -2, r + 1);
  }
  return 1;
}

/* same(names, values): fails, on all ranks alike, where one has others in these lists of texts */
static int core_same(lua_State *L) {
  size_t n = lua_rawlen(L, 1);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_argcheck(L, lua_rawlen(L, 2) == n && n < 4096, 2, "as many values as names are wanted, at most 4095");
  luaL_checkstack(L, 2 * (int)n + 4, "texts");
  sp_rank_text *texts = lua_newuserdatauv(L, (n + 1) * sizeof *texts, 0);
  sp_err err;
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    texts[i] = (sp_rank_text){luaL_checkstring(L, -2), luaL_checkstring(L, -1)};
  }
  if (sp_ranks_same(sp_lua_of(L)->env->ranks, texts, n, &err)) return sp_lua_raise(L, &err);
  return 0;
}

static const luaL_Reg core_functions[] = {
    {"graph", sp_lua_graph_new},
    {"hand", sp_lua_hand_new},
    {"env", core_env},
    {"loaded_files", core_loaded_files},
    {"rows", sp_lua_rows},
    {"argv", core_argv},
    {"set_threads", core_set_threads},
    {"set_debug", core_set_debug},
    {"cure_option", core_cure_option},
    {"only_prints", core_only_prints},
    {"load_plugin", core_load_plugin},
    {"count_device", core_count_device},
    {"device_name", core_device_name},
    {"knows_format", core_knows_format},
    {"knows_comm", core_knows_comm},
    {"write_picture", core_write_picture},
    {"nearest", core_nearest},
    {"checksum", core_checksum},
    {"examine", sp_lua_examine},
    {"fail", core_fail},
    {"where", core_where},
    {"exit", core_exit},
    {"kind", core_kind},
    {"log", core_log},
    {"log_level", core_log_level},
    {"interrupted", core_interrupted},
    {"warned", core_warned},
    {"warnings_save", core_warnings_save},
    {"broadcast", core_broadcast},
    {"gather", core_gather},
    {"same", core_same},
    {NULL, NULL},
};

int sp_lua_open_core(lua_State *L) {
  sp_lua_open_graph(L);
  sp_lua_open_hand(L);
  luaL_newlib(L, core_functions);
  return 1;
}
