/* SPDX-License-Identifier: MIT
 * main.h - one Lua state that runs one script, and what all bindings share. */
#ifndef SP_CORE_LUA_MAIN_H
#define SP_CORE_LUA_MAIN_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "host/env.h"
#include "base/value.h"

typedef struct sp_lua {
  lua_State *L;
  sp_env *env;        /* not owned */
  const char *script; /* as the user wrote it */
  char *script_path;  /* where it was found */
  char *internal;     /* SCRIPT_DIR/spcore/: sources there are passed over when an error asks for the user's line */
  int argc;           /* what follows the script's name */
  char **argv;
  bool debug;         /* errors come with a traceback */
  bool drawn;         /* the terminal's line holds a progress bar */
  bool device_failed; /* an error that was raised is a device's */
  bool lost;          /* a file that was asked for is not complete; said, but raised to nobody */
  bool exiting;       /* sp_lua_exit was called: `exit_code` holds */
  int exit_code;
} sp_lua;

int sp_lua_new(sp_lua **lua, sp_env *env, bool debug, sp_err *err);
void sp_lua_free(sp_lua *lua);
/* Finds the script (as given, then in script_dir, each also with ".lua"), runs it and returns the program's exit code.
 * What went wrong has been printed. The Lua state is closed then: one script a state. */
int sp_lua_run(sp_lua *lua, const char *script, int argc, char **argv);

/* From the first SIGINT or SIGTERM on interrupted() gives its number, and loops end at the next step. A script that goes
 * on for long without either is ended by an error. The second signal ends the program at once. */
void sp_lua_catch_signals(void);
int sp_lua_interrupted(void);

/* ---- for bindings ---- */
sp_lua *sp_lua_of(lua_State *L);
/* Raise, with the line of the user's script in front: the nearest on the stack that is no part of the friendly half. */
int sp_lua_fail(lua_State *L, const char *fmt, ...) SP_PRINTF(2, 3);
int sp_lua_raise(lua_State *L, const sp_err *err);
void sp_lua_where(lua_State *L); /* pushes "train.lua:12: ", or "" */
/* Unwinds to sp_lua_run, which returns `code`. Does not return. */
int sp_lua_exit(lua_State *L, int code);

/* A table, or nil for none, at `idx` as parameters. Depth and size are limited; functions, holes, cycles and keys that
 * are neither names nor 1..n are refused, with the way to them: "layers[3].kernel". */
int sp_lua_value(lua_State *L, int idx, sp_value *v, sp_err *err);
/* A value on the Lua stack that is freed with it, also when an error unwinds. */
sp_value *sp_lua_value_box(lua_State *L);

/* Field `key` of the options at `idx`, with a check of type; absent (or no table at all): the default. */
const char *sp_lua_opt_str(lua_State *L, int idx, const char *key, const char *def); /* lives as long as the table */
lua_Integer sp_lua_opt_int(lua_State *L, int idx, const char *key, lua_Integer def, lua_Integer min, lua_Integer max);
bool sp_lua_opt_bool(lua_State *L, int idx, const char *key, bool def);

void sp_lua_erase(sp_lua *lua); /* takes the progress bar away, if there is one */

int sp_lua_open_sys(lua_State *L);  /* "spcore.sys": files, terminal, clock */
int sp_lua_open_core(lua_State *L); /* "spcore.core": graphs, nodes */

#endif
