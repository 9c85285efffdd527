/* SPDX-License-Identifier: MIT
 * signals.h - SIGINT and SIGTERM while a script runs. */
#ifndef SP_CORE_LUA_SIGNALS_H
#define SP_CORE_LUA_SIGNALS_H

#include <lua.h>

/* From the first SIGINT or SIGTERM on interrupted() gives its number, and loops end at the next step. A script that
 * goes on for long without either is ended by an error. The second signal ends the program at once. */
void sp_lua_catch_signals(void);
int sp_lua_interrupted(void);
/* A call is over that may have taken as long: what is behind it has its time before that error. */
void sp_lua_was_long(lua_State *L);
/* Several ranks train a graph: from now on interrupted() is what they have agreed on, and caught() what came here. */
void sp_lua_share_signals(void);
int sp_lua_caught(void);
void sp_lua_agree(int sig);

/* The job has failed on another rank: the script ends at its next instruction with that error. From any thread. */
void sp_lua_end_script(void);
void sp_lua_failure_told(void); /* it ends by another error that says so */

void sp_lua_watch(lua_State *L);           /* the state whose script runs from now on; NULL: none does */
void sp_lua_hook_coroutines(lua_State *L); /* so that its coroutines end late scripts, too */

#endif
