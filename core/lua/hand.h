/* SPDX-License-Identifier: MIT
 * hand.h - what the bindings of streams, events, tensors and stages by hand share.
 *
 * A userdata of each holds the C object. User value 1 of all but the device's is the device's, so that it is not
 * collected before them; the device's own finds objects by their address. */
#ifndef SP_CORE_LUA_HAND_H
#define SP_CORE_LUA_HAND_H

#include "hand/hand.h"
#include "lua/state.h"

#define SP_LUA_HAND "spcore.hand"
#define SP_LUA_STREAM "spcore.stream"
#define SP_LUA_EVENT "spcore.event"
#define SP_LUA_TENSOR "spcore.tensor"
#define SP_LUA_HSTAGE "spcore.hstage"

int sp_lua_hand_new(lua_State *L); /* hand{ options } -> device */
void sp_lua_open_hand(lua_State *L);
void sp_lua_open_tensor(lua_State *L);
void sp_lua_open_hstage(lua_State *L);

sp_hand *sp_lua_check_hand(lua_State *L, int idx);
sp_hstream *sp_lua_check_stream(lua_State *L, int idx);
sp_htensor *sp_lua_check_tensor(lua_State *L, int idx); /* may be closed: the core says so */
sp_hstage *sp_lua_check_hstage(lua_State *L, int idx);

/* A new userdata for an object of the device at `hand_idx`, found again by its address; *place is the object. */
void **sp_lua_hand_object(lua_State *L, int hand_idx, const char *meta);
void sp_lua_hand_remember(lua_State *L, int hand_idx, void *object); /* the userdata on top */
bool sp_lua_hand_find(lua_State *L, int hand_idx, void *object);     /* pushes it, or nothing */
/* "train.lua:12", or "": `always`, or where races are looked for. Lives until the next call. */
const char *sp_lua_hand_where(lua_State *L, const sp_hand *h, bool always);
sp_hand *sp_lua_hand_of(lua_State *L, int idx); /* of an object; pushes the device's userdata */

void sp_lua_push_htensor(lua_State *L, int hand_idx, sp_htensor *t); /* takes the hold over */
extern const luaL_Reg sp_lua_tensor_makers[];                        /* functions of the device */
extern const luaL_Reg sp_lua_stage_makers[];
extern const luaL_Reg sp_lua_stage_calls[]; /* functions of a stream */

#endif
