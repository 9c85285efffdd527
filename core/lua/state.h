/* SPDX-License-Identifier: MIT
 * state.h - what all bindings stand on: the run that a Lua state belongs to, errors, options. */
#ifndef SP_CORE_LUA_STATE_H
#define SP_CORE_LUA_STATE_H

#include <lauxlib.h>
#include <lua.h>

#include "host/env.h"

/* In the registry: a set of the files that loadfile and dofile were asked for. */
#define SP_LUA_FILES "spcore files"

typedef struct sp_lua {
  lua_State *L;
  sp_env *env;        /* not owned */
  const char *script; /* as the user wrote it */
  char *script_path;  /* where it was found */
  char *internal;     /* SCRIPT_DIR/spcore/: sources there are passed over when an error asks for the user's line */
  int argc;           /* what follows the script's name */
  char **argv;
  const char *schedule; /* "text", "json", "dot", "svg": what would run prints its schedule, and the script ends */
  const char *picture;  /* the file that "svg" is written to, "-": standard output */
  bool debug;           /* errors come with a traceback */
  bool device_failed;   /* an error that was raised is a device's */
  bool lost;            /* a file that was asked for is not complete; said, but raised to nobody */
  int exit_code;        /* of sp_lua_exit */
  sp_err why;           /* the script ends without success; status SP_OK: it does not */
  bool told;            /* the other ranks have heard of that */
} sp_lua;

sp_lua *sp_lua_of(lua_State *L);

/* Raise, with the line of the user's script in front: the nearest on the stack that is no part of the friendly half. */
int sp_lua_fail(lua_State *L, const char *fmt, ...) SP_PRINTF(2, 3);
int sp_lua_raise(lua_State *L, const sp_err *err);
void sp_lua_where(lua_State *L); /* pushes "train.lua:12: ", or "" */
/* Unwinds to sp_lua_run, which returns `code`. Does not return. */
int sp_lua_exit(lua_State *L, int code);
bool sp_lua_is_exit(lua_State *L, int idx); /* the error value there is sp_lua_exit's */
/* The other ranks hear why the script of this one ends, if it does so without success and by itself. From then on
 * nothing that needs them comes to its end. */
void sp_lua_tell_ranks(sp_lua *lua);
int sp_lua_on_error(lua_State *L); /* message handler: makes a string of any error value but that one */

void sp_lua_push_shape(lua_State *L, const sp_spec *s); /* { 8, 3, 64, 64 } */
/* Set a field of the table on top. */
void sp_lua_set_str(lua_State *L, const char *key, const char *v); /* NULL: nil */
void sp_lua_set_int(lua_State *L, const char *key, lua_Integer v);

/* Field `key` of the options at `idx`, with a check of type; absent (or no table at all): the default. */
extern const char *const sp_lua_precisions[]; /* in the order of SP_PRECISION_...; ended by NULL */
const char *sp_lua_opt_str(lua_State *L, int idx, const char *key, const char *def); /* lives as long as the table */
lua_Integer sp_lua_opt_int(lua_State *L, int idx, const char *key, lua_Integer def, lua_Integer min, lua_Integer max);
bool sp_lua_opt_bool(lua_State *L, int idx, const char *key, bool def);
/* Which of `words`, ended by NULL; -1, for a default of -1 alone: nothing is said. */
int sp_lua_opt_choice(lua_State *L, int idx, const char *key, const char *const *words, int def);

/* options.c: all fields of the table at `idx` that have a row (graph/option.h), checked and kept in the struct `to`.
 * Strings live as long as the table. */
struct sp_option;
void sp_lua_read_rows(lua_State *L, int idx, const struct sp_option *rows, void *to);
int sp_lua_rows(lua_State *L); /* rows("graph" | "lane" | "stage") -> a list of the rows */

#endif
