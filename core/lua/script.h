/* SPDX-License-Identifier: MIT
 * script.h - scripts by name: where one is found, and what to type where there is none. */
#ifndef SP_CORE_LUA_SCRIPT_H
#define SP_CORE_LUA_SCRIPT_H

#include "host/env.h"

bool sp_script_is_path(const char *script); /* "/a", "./a" or "../a": no name of a shipped one */
/* As given, then, but for such a path, in script_dir and its examples/; each also with ".lua". The caller frees it;
 * NULL: nowhere. */
char *sp_script_find(const sp_env *env, const char *script);
/* The shipped script whose name is nearest to the last part of `script`, with ".lua"; the caller frees it, or NULL. */
char *sp_script_near(const sp_env *env, const char *script);
/* "make_shapes.lua, ... examples/branches.lua ...", in lines of at most so many columns; 0: in one. */
void sp_script_put_shipped(const sp_env *env, size_t columns, sp_sb *out);

#endif
