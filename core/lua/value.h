/* SPDX-License-Identifier: MIT
 * value.h - a Lua table as stage parameters. */
#ifndef SP_CORE_LUA_VALUE_H
#define SP_CORE_LUA_VALUE_H

#include <lua.h>

#include "base/value.h"

/* A table, or nil for none, at `idx` as parameters. Depth and size are limited; functions, holes, cycles and keys that
 * are neither names nor 1..n are refused, with the way to them: "layers[3].kernel". */
int sp_lua_value(lua_State *L, int idx, sp_value *v, sp_err *err);
/* A value on the Lua stack that is freed with it, also when an error unwinds. */
sp_value *sp_lua_value_box(lua_State *L);

#endif
