/* SPDX-License-Identifier: MIT
 * main.c - makes the Lua state (libraries, search paths) and runs the script: the program's exit code. */
#include "lua/main.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/line.h"
#include "lua/core.h"
#include "lua/script.h"
#include "lua/signals.h"
#include "lua/sys.h"

/* ---- state ------------------------------------------------------------------------------------------------------- */

/* package.FIELD without its relative entries, behind `first` (may be NULL). The current folder must not be able to put
 * code into a run. */
static void set_path(lua_State *L, const char *field, const char *first) {
  luaL_Buffer b;
  lua_getglobal(L, "package");
  lua_getfield(L, -1, field);
  const char *old = luaL_checkstring(L, -1);
  luaL_buffinit(L, &b);
  bool some = first != NULL;
  if (first) luaL_addstring(&b, first);
  while (*old) {
    size_t n = strcspn(old, ";");
    if (old[0] == '/') {
      if (some) luaL_addchar(&b, ';');
      luaL_addlstring(&b, old, n);
      some = true;
    }
    old += n;
    if (*old) old++;
  }
  luaL_pushresult(&b);
  lua_setfield(L, -3, field);
  lua_pop(L, 2);
}

/* os.exit([code [, close]]). Without `close` lanes may be at work: exit() would have libraries free what stages use, so
 * that they crash on the way out. */
static int os_exit(lua_State *L) {
  int code = EXIT_SUCCESS;
  if (!lua_isboolean(L, 1)) code = (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
  else if (!lua_toboolean(L, 1)) code = EXIT_FAILURE;
  if (lua_toboolean(L, 2)) {
    lua_close(L);
    exit(code);
  }
  fflush(NULL);
  _exit(code);
}

/* loadfile and dofile note the files that they are asked for, in the registry's SP_LUA_FILES: a run depends on them as
 * on the script. Tail calls, so that what a file returns, yields or fails with is as without this. */
static const char note_files[] =
    "local files, load, run = ...\n"
    "function loadfile(path, ...) if path then files[path] = true end return load(path, ...) end\n"
    "function dofile(path) if path then files[path] = true end return run(path) end\n";

static void hook_files(lua_State *L) {
  if (luaL_loadbuffer(L, note_files, sizeof note_files - 1, "=loadfile") != LUA_OK) lua_error(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, SP_LUA_FILES);
  lua_getglobal(L, "loadfile");
  lua_getglobal(L, "dofile");
  lua_call(L, 3, 0);
}

static int open_all(lua_State *L) {
  const sp_lua *lua = sp_lua_of(L);
  luaL_openlibs(L);
  hook_files(L);
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_pushcfunction(L, os_exit);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
  lua_register(L, "print", sp_lua_print);
  sp_lua_hook_coroutines(L);
  lua_pushfstring(L, "%s/?.lua;%s/?/init.lua", lua->env->script_dir, lua->env->script_dir);
  set_path(L, "path", lua_tostring(L, -1));
  set_path(L, "cpath", NULL);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, sp_lua_open_sys);
  lua_setfield(L, -2, "spcore.sys");
  lua_pushcfunction(L, sp_lua_open_core);
  lua_setfield(L, -2, "spcore.core");
  return 0;
}

int sp_lua_new(sp_lua **out, sp_env *env, bool debug, sp_err *err) {
  sp_lua *lua = sp_calloc(1, sizeof *lua);
  if (!lua) return sp_nomem(err, sizeof *lua, "the Lua state");
  size_t n = strlen(env->script_dir) + sizeof "/spcore/";
  lua->env = env;
  lua->debug = debug;
  lua->internal = sp_calloc(1, n);
  lua->L = luaL_newstate();
  if (!lua->internal || !lua->L) {
    sp_lua_free(lua);
    return sp_nomem(err, 0, "the Lua state");
  }
  snprintf(lua->internal, n, "%s/spcore/", env->script_dir);
  *(sp_lua **)lua_getextraspace(lua->L) = lua;
  lua_pushcfunction(lua->L, open_all);
  if (lua_pcall(lua->L, 0, 0, 0) != LUA_OK) {
    const char *msg = lua_tostring(lua->L, -1);
    sp_fail(err, SP_E_NOMEM, "cannot start Lua: %s", msg ? msg : "unknown error");
    sp_lua_free(lua);
    return err->status;
  }
  *out = lua;
  return SP_OK;
}

void sp_lua_free(sp_lua *lua) {
  if (!lua) return;
  if (lua->L) lua_close(lua->L);
  free(lua->internal);
  free(lua->script_path);
  free(lua);
}

/* ---- the script -------------------------------------------------------------------------------------------------- */

/* What to type instead. */
static void not_found(const sp_lua *lua, const char *script) {
  if (access(lua->env->script_dir, F_OK) != 0) {
    sp_log(SP_LOG_ERROR,
           "script '%s' not found: the installation is not whole, as there is no %s, where shipped scripts are, nor "
           "such a folder beside the program; make install writes it",
           script, lua->env->script_dir);
    return;
  }
  char *near = sp_script_near(lua->env, script);
  sp_sb where = {0}, hint = {0};
  if (sp_script_is_path(script)) sp_sb_put(&where, "neither with nor without .lua");
  else sp_sb_putf(&where, "looked here and in %s", lua->env->script_dir);
  sp_sb_put(&hint, near ? "did you mean: spcore run " : "shipped are ");
  if (near) sp_sb_put(&hint, near);
  else sp_script_put_shipped(lua->env, 0, &hint);
  sp_log(SP_LOG_ERROR, "script '%s' not found, %s; %s", script, sp_sb_str(&where), sp_sb_str(&hint));
  sp_sb_free(&where);
  sp_sb_free(&hint);
  free(near);
}

/* Pushes the script as a function. Messages call it what the user called it, not where it was found. A first line that
 * begins with # is for the shell. */
static void push_script(lua_State *L, const sp_lua *lua) {
  luaL_Buffer b;
  size_t n = 1;
  FILE *f = fopen(lua->script_path, "re");
  if (!f) luaL_error(L, "%s: %s", lua->script_path, strerror(errno));
  luaL_buffinit(L, &b);
  while (n > 0) {
    n = fread(luaL_prepbuffer(&b), 1, LUAL_BUFFERSIZE, f);
    luaL_addsize(&b, n);
  }
  bool bad = ferror(f);
  fclose(f);
  if (bad) luaL_error(L, "%s: cannot be read", lua->script_path);
  luaL_pushresult(&b);
  const char *text = lua_tolstring(L, -1, &n), *end = NULL;
  if (*text == LUA_SIGNATURE[0])
    luaL_error(L, "%s is compiled, as luac does it, or no script: give the source", lua->script);
  if (*text == '#') end = memchr(text, '\n', n);
  if (end) {
    n -= (size_t)(end - text);
    text = end; /* the newline stays, so that lines count the same */
  }
  size_t given = strlen(lua->script);
  bool has_end = given > 4 && strcmp(lua->script + given - 4, ".lua") == 0;
  bool with_end = strcmp(lua->script_path + strlen(lua->script_path) - 4, ".lua") == 0;
  lua_pushfstring(L, "@%s%s", lua->script, with_end && !has_end ? ".lua" : "");
  if (luaL_loadbufferx(L, text, n, lua_tostring(L, -1), "t") != LUA_OK) lua_error(L);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* The folder of the script comes after the shipped one, so that it can hold modules but not hide ours. */
static int load_script(lua_State *L) {
  sp_lua *lua = sp_lua_of(L);
  char full[PATH_MAX];
  if (realpath(lua->script_path, full)) {
    const char *dir = dirname(full);
    if (strcmp(dir, lua->env->script_dir) != 0) {
      lua_getglobal(L, "package");
      lua_getfield(L, -1, "path");
      lua_pushfstring(L, "%s;%s/?.lua", lua_tostring(L, -1), dir);
      lua_setfield(L, -3, "path");
      lua_pop(L, 2);
    }
  }
  push_script(L, lua);
  luaL_checkstack(L, lua->argc + 2, "too many arguments");
  for (int i = 0; i < lua->argc; i++) lua_pushstring(L, lua->argv[i]);
  lua_call(L, lua->argc, 0);
  return 0;
}

/* The job has failed for another reason than this, which a script's line may stand before: so that is said, too. */
static void say_why(sp_ranks *r, const char *msg) {
  sp_err err;
  const char *line = strstr(msg, ": ");
  if (line) msg = line;
  size_t n = strcspn(msg, "\n");
  if (sp_ranks_failed(r, &err) && !memmem(err.msg, strlen(err.msg), msg, n < 200 ? n : 200))
    sp_log(SP_LOG_ERROR, "%s", err.msg);
}

/* An error has ended the script. If it is this rank's own, the others hear of it, and it may turn out that a rank which
 * died has brought it about; if another rank has failed before, that is why, whatever the error says, and in the same
 * words everywhere: without a line of this script. */
static void say_error(sp_lua *lua, const char *msg) {
  sp_err err;
  bool same = !lua->told && sp_ranks_failed(lua->env->ranks, &err) && strstr(msg, err.msg);
  if (lua->debug) fprintf(stderr, "spcore: %s\n", msg); /* the traceback has lines of its own */
  else sp_log(SP_LOG_ERROR, "%s", same ? err.msg : msg);
  sp_lua_tell_ranks(lua);
  if (!same) say_why(lua->env->ranks, msg);
}

/* Why the script ends: the first error, or an exit that is none of success.
 * Who closes a graph tells the other ranks. */
static int on_error(lua_State *L) {
  sp_lua *lua = sp_lua_of(L);
  int n = sp_lua_on_error(L);
  bool exits = sp_lua_is_exit(L, -1);
  if (lua->why.status) return n;
  if (!exits) sp_fail(&lua->why, SP_E_CANCELLED, "%s", lua_tostring(L, -1));
  else if (lua->exit_code) sp_fail(&lua->why, SP_E_CANCELLED, "it ended with exit status %d", lua->exit_code);
  return n;
}

#define EXIT_DEVICE 75 /* EX_TEMPFAIL: the same run may succeed on a device that works */

int sp_lua_run(sp_lua *lua, const char *script, int argc, char **argv) {
  lua_State *L = lua->L;
  lua->script = script;
  lua->argc = argc;
  lua->argv = argv;
  free(lua->script_path);
  lua->script_path = sp_script_find(lua->env, script);
  if (!lua->script_path) {
    not_found(lua, script);
    return 2;
  }
  lua_settop(L, 0);
  lua_pushcfunction(L, on_error);
  lua_pushcfunction(L, load_script);
  sp_lua_watch(L);
  int status = lua_pcall(L, 0, 0, 1);
  sp_lua_watch(NULL);
  int code = 0;
  sp_line_erase();
  if (status != LUA_OK && sp_lua_is_exit(L, -1)) {
    sp_err err;
    code = lua->exit_code; /* where it is 0 the end of the ranks says why it does not stay so */
    if (code && !lua->told && sp_ranks_failed(lua->env->ranks, &err)) sp_log(SP_LOG_ERROR, "%s", err.msg);
  } else if (status != LUA_OK) {
    const char *msg = lua_tostring(L, -1);
    if (!msg) msg = "unknown error";
    code = lua->device_failed ? EXIT_DEVICE : 1;
    if (!lua->why.status) sp_fail(&lua->why, SP_E_CANCELLED, "%s", msg); /* memory was out: no handler */
    say_error(lua, msg);
  } else if (lua->schedule) { /* printing it ends the script */
    sp_log(SP_LOG_ERROR, "script '%s' runs no graph, so there is no schedule", script);
    code = 1;
  }
  lua_close(L); /* what is still open ends here, and may fail */
  lua->L = NULL;
  if (lua->lost && code == 0) code = 1;
  fflush(stdout);
  if (ferror(stdout) && code == 0) {
    sp_log(SP_LOG_ERROR, "standard output: writing failed, so what was printed is not complete");
    code = 1;
  }
  int sig = sp_lua_interrupted();
  return sig ? 128 + sig : code;
}
