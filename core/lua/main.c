/* SPDX-License-Identifier: MIT
 * main.c - the Lua state: libraries, search paths, errors in one line, signals, exit codes. */
#include "lua/main.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- signals ----------------------------------------------------------------------------------------------------- */

#define GRACE 100000000 /* instructions that a script may take to its next step, or to ask: about a second's */

static volatile sig_atomic_t caught, noticed;
static lua_State *volatile running;

/* Called GRACE instructions after a signal, in a coroutine after its own, and again each time that as many have passed. */
static void on_late(lua_State *L, lua_Debug *ar) {
  (void)ar;
  if (!caught) return;
  if (noticed) lua_sethook(L, NULL, 0, 0);
  else sp_lua_fail(L, "interrupted by %s", caught == SIGINT ? "SIGINT" : "SIGTERM");
}

/* The next one, of either kind, finds the default action. A hook is what a signal handler may set. */
static void on_signal(int sig) {
  caught = sig;
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (running) lua_sethook(running, on_late, LUA_MASKCOUNT, GRACE);
}

void sp_lua_catch_signals(void) {
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_handler = on_signal;
  sa.sa_flags = (int)SA_RESETHAND | SA_RESTART;
  sigemptyset(&sa.sa_mask);
  sigaction(SIGINT, &sa, NULL);
  sigaction(SIGTERM, &sa, NULL);
}

int sp_lua_interrupted(void) {
  if (caught) noticed = 1;
  return caught;
}

/* coroutine.create and wrap, Lua's own in the upvalue: a coroutine begins with the hook of whoever makes it, and has to
 * have it from then on, since the handler does not know which one runs. */
static int make_coroutine(lua_State *L) {
  lua_Hook hook = lua_gethook(L);
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_sethook(L, on_late, LUA_MASKCOUNT, GRACE);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_sethook(L, hook, mask, count);
  if (caught) lua_sethook(L, on_late, LUA_MASKCOUNT, GRACE); /* what the handler set meanwhile */
  return 1;
}

static void hook_coroutines(lua_State *L) {
  static const char *const makers[] = {"create", "wrap"};
  lua_getglobal(L, LUA_COLIBNAME);
  for (size_t i = 0; i < SP_ARRAY(makers); i++) {
    lua_getfield(L, -1, makers[i]);
    lua_pushcclosure(L, make_coroutine, 1);
    lua_setfield(L, -2, makers[i]);
  }
  lua_pop(L, 1);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

sp_lua *sp_lua_of(lua_State *L) { return *(sp_lua **)lua_getextraspace(L); }

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
  if (err->status == SP_E_DEVICE) sp_lua_of(L)->device_failed = true;
  sp_lua_where(L);
  lua_pushstring(L, err->msg);
  lua_concat(L, 2);
  return lua_error(L);
}

#define SP_EXIT_DEVICE 75 /* EX_TEMPFAIL: the same run may succeed on a device that works */

/* The error value of an exit: its address is its meaning. */
static char exit_mark;

int sp_lua_exit(lua_State *L, int code) {
  sp_lua *lua = sp_lua_of(L);
  lua->exiting = true;
  lua->exit_code = code;
  lua_pushlightuserdata(L, &exit_mark);
  return lua_error(L);
}

/* ":12: " is somewhere in it. */
static bool has_line(const char *msg) {
  for (const char *p = msg; (p = strchr(p, ':')); p++) {
    size_t n = strspn(p + 1, "0123456789");
    if (n && p[n + 1] == ':') return true;
  }
  return false;
}

/* Message handler: makes a string of any error value. A message that names no line (assert's, or one from within a
 * library function) gets that of the script. The traceback is for debugging. */
static int on_error(lua_State *L) {
  if (lua_touserdata(L, 1) == &exit_mark) return 1;
  const char *msg = lua_tostring(L, 1);
  if (!msg) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) {
      msg = lua_tostring(L, -1);
    } else {
      msg = lua_pushfstring(L, "error of type %s", luaL_typename(L, 1));
    }
  }
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

/* ---- state ------------------------------------------------------------------------------------------------------- */

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

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

static int open_all(lua_State *L) {
  const sp_lua *lua = sp_lua_of(L);
  luaL_openlibs(L);
  hook_coroutines(L);
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

/* As given, then in the script folder; each also with ".lua". What was tried is in *tried. */
static char *find_script(const sp_lua *lua, const char *script, sp_sb *tried) {
  const char *dirs[] = {"", lua->env->script_dir};
  const char *ends[] = {"", ".lua"};
  for (size_t d = 0; d < SP_ARRAY(dirs); d++) {
    if (dirs[d][0] && script[0] == '/') continue;
    for (size_t e = 0; e < SP_ARRAY(ends); e++) {
      sp_sb path = {0};
      sp_sb_putf(&path, "%s%s%s%s", dirs[d], dirs[d][0] ? "/" : "", script, ends[e]);
      if (!path.broken && is_file(sp_sb_str(&path))) return path.s;
      sp_sb_putf(tried, "%s%s", tried->n ? ", " : "", sp_sb_str(&path));
      sp_sb_free(&path);
    }
  }
  return NULL;
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

int sp_lua_run(sp_lua *lua, const char *script, int argc, char **argv) {
  lua_State *L = lua->L;
  sp_sb tried = {0};
  lua->script = script;
  lua->argc = argc;
  lua->argv = argv;
  free(lua->script_path);
  lua->script_path = find_script(lua, script, &tried);
  if (!lua->script_path) {
    sp_log(SP_LOG_ERROR, "script '%s' not found; looked for %s", script, sp_sb_str(&tried));
    sp_sb_free(&tried);
    return 2;
  }
  sp_sb_free(&tried);
  lua_settop(L, 0);
  lua_pushcfunction(L, on_error);
  lua_pushcfunction(L, load_script);
  running = L;
  if (caught) on_signal(caught); /* before there was a script */
  int status = lua_pcall(L, 0, 0, 1);
  running = NULL;
  int code = 0;
  sp_lua_erase(lua);
  if (status != LUA_OK && lua_touserdata(L, -1) == &exit_mark) {
    code = lua->exit_code;
  } else if (status != LUA_OK) {
    const char *msg = lua_tostring(L, -1);
    if (lua->debug && msg) fprintf(stderr, "spcore: %s\n", msg); /* the traceback has lines of its own */
    else sp_log(SP_LOG_ERROR, "%s", msg ? msg : "unknown error");
    code = lua->device_failed ? SP_EXIT_DEVICE : 1;
  }
  lua_close(L); /* what is still open ends here, and may fail */
  lua->L = NULL;
  if (lua->lost && code == 0) code = 1;
  fflush(stdout);
  if (ferror(stdout) && code == 0) {
    sp_log(SP_LOG_ERROR, "standard output: writing failed, so what was printed is not complete");
    code = 1;
  }
  if (caught) code = 128 + caught;
  return code;
}
