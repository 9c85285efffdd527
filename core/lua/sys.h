/* SPDX-License-Identifier: MIT
 * sys.h - "spcore.sys": files, terminal, clock. */
#ifndef SP_CORE_LUA_SYS_H
#define SP_CORE_LUA_SYS_H

#include "lua/state.h"

int sp_lua_open_sys(lua_State *L);
int sp_lua_print(lua_State *L); /* Lua's print, above a progress bar if there is one */

int sp_lua_child(lua_State *L); /* child.c */

/* names.c */
int sp_lua_names(lua_State *L);
int sp_lua_distinct(lua_State *L);

#endif
