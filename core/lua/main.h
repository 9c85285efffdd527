/* SPDX-License-Identifier: MIT
 * main.h - one Lua state that runs one script. */
#ifndef SP_CORE_LUA_MAIN_H
#define SP_CORE_LUA_MAIN_H

#include "lua/state.h"

int sp_lua_new(sp_lua **lua, sp_env *env, bool debug, sp_err *err);
void sp_lua_free(sp_lua *lua);
/* Finds the script (as given, then in script_dir and its examples/, each also with ".lua"), runs it and returns the
 * program's exit code. What went wrong has been printed. The Lua state is closed then: one script a state. */
int sp_lua_run(sp_lua *lua, const char *script, int argc, char **argv);

#endif
