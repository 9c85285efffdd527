/* SPDX-License-Identifier: MIT
 * signals.h - signals that end a script, or have it save a checkpoint, while it runs. */
#ifndef SP_CORE_LUA_SIGNALS_H
#define SP_CORE_LUA_SIGNALS_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From the first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 on interrupted() gives its number, and loops end at the
 * next step. A line on standard error says so at once. A script that goes on for long without either is ended by an
 * error. The second SIGINT, SIGTERM or SIGHUP ends the program at once. */
void sp_lua_catch_signals(void);
int sp_lua_interrupted(void);
/* SIGUSR1 and SIGUSR2 end nothing from now on: warned() gives the number of one that came, once. 0: none did */
void sp_lua_warnings_save(bool yes);
int sp_lua_warned(void);
void sp_lua_keeps(bool yes);     /* a checkpoint is saved before the steps end: it is said */
void sp_lua_told_by(pid_t pid);  /* signals of that process come to all ranks: this one does not answer them */
/* A call is over that may have taken as long: what is behind it has its time before that error. */
void sp_lua_was_long(lua_State *L);
/* Several ranks train a graph: from now on interrupted() is what they have agreed on, and caught() what came here, as a
 * bit, to be put together by or. */
void sp_lua_share_signals(void);
uint32_t sp_lua_caught(void);
void sp_lua_agree(uint32_t bits);

/* The job has failed on another rank: the script ends at its next instruction with that error. From any thread. */
void sp_lua_end_script(void);
void sp_lua_failure_told(void); /* it ends by another error that says so */

void sp_lua_watch(lua_State *L);           /* the state whose script runs from now on; NULL: none does */
void sp_lua_hook_coroutines(lua_State *L); /* so that its coroutines end late scripts, too */

#endif
