/* SPDX-License-Identifier: MIT
 * lanes.c - the lanes of a strategy as a Lua table. */
#include "lua/graph.h"

#include <string.h>

#include "graph/option.h"

/* A stage of a lane: a node for all of it, or { node, "forward", "backward", "copy" } for some of its parts. */
static sp_node *check_part(lua_State *L, const sp_lua_graph *lg, uint8_t *parts) {
  static const char *const words[] = {"forward", "backward", "copy", NULL};
  *parts = SP_PART_ALL;
  if (!lua_istable(L, -1)) return sp_lua_check_node(L, -1, lg);
  *parts = 0;
  for (lua_Integer i = 2; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
    const char *word = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : luaL_typename(L, -1);
    int k = 0;
    while (words[k] && strcmp(words[k], word)) k++;
    if (!words[k]) sp_lua_fail(L, "a lane's part '%s': a stage has forward, backward and copy", word);
    *parts |= (uint8_t)(1u << k);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  lua_rawgeti(L, -1, 1);
  sp_node *node = sp_lua_check_node(L, -1, lg);
  lua_pop(L, 1);
  return node;
}

/* The stages of the lane at index t, in memory that stays at the top of the stack. */
static void check_stages(lua_State *L, const char *name, const sp_lua_graph *lg, int t, sp_lane_desc *lane) {
  lua_getfield(L, t, "stages");
  luaL_checktype(L, -1, LUA_TTABLE);
  size_t k = lua_rawlen(L, -1);
  if (k > 100000) sp_lua_fail(L, "strategy '%s': too many stages", name);
  sp_node **nodes = lua_newuserdatauv(L, (k + 1) * (sizeof *nodes + 1), 0);
  uint8_t *parts = (uint8_t *)(nodes + k + 1);
  for (size_t j = 0; j < k; j++) {
    lua_rawgeti(L, -2, (lua_Integer)j + 1);
    nodes[j] = check_part(L, lg, &parts[j]);
    lua_pop(L, 1);
  }
  lane->nodes = nodes;
  lane->n_nodes = k;
  lane->parts = parts;
}

sp_lane_desc *sp_lua_check_lanes(lua_State *L, const sp_lua_graph *lg, const char *name, int idx, size_t *count) {
  luaL_checktype(L, idx, LUA_TTABLE);
  lua_settop(L, idx);
  size_t n = lua_rawlen(L, idx);
  if (n > 1000) sp_lua_fail(L, "strategy '%s': more than 1000 lanes", name);
  luaL_checkstack(L, (int)(2 * n) + 16, "too many lanes");
  sp_lane_desc *lanes = lua_newuserdatauv(L, (n + 1) * sizeof *lanes, 0); /* idx + 1 */
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, idx, (lua_Integer)i + 1);
    int t = lua_gettop(L);
    luaL_checktype(L, t, LUA_TTABLE);
    lanes[i].props = (sp_lane_props){.name = sp_lua_opt_str(L, t, "name", "lane")};
    sp_lua_read_rows(L, t, sp_lane_rows, &lanes[i].props);
    check_stages(L, name, lg, t, &lanes[i]);
    lua_replace(L, t); /* the nodes stay alive there */
    lua_settop(L, t);
  }
  *count = n;
  return lanes;
}
