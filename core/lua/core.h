/* SPDX-License-Identifier: MIT
 * core.h - "spcore.core": graphs, nodes, the process. */
#ifndef SP_CORE_LUA_CORE_H
#define SP_CORE_LUA_CORE_H

#include <lua.h>

int sp_lua_open_core(lua_State *L);

#endif
