/* SPDX-License-Identifier: MIT
 * sys.h - "spcore.sys": files, terminal, clock. */
#ifndef SP_CORE_LUA_SYS_H
#define SP_CORE_LUA_SYS_H

#include "lua/state.h"

int sp_lua_open_sys(lua_State *L);
void sp_lua_erase(sp_lua *lua); /* takes the progress bar away, if there is one */

#endif
