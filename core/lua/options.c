/* SPDX-License-Identifier: MIT
 * options.c - the rows of graph/option.h for scripts: fields of a table that they name, and the rows themselves. */
#include <string.h>

#include "graph/option.h"
#include "lua/state.h"

static void read_text(lua_State *L, int idx, const sp_option *row, void *to) {
  const char *text = sp_lua_opt_str(L, idx, row->name, NULL);
  if (text && row->choices) sp_lua_opt_choice(L, idx, row->name, row->choices, 0);
  memcpy((char *)to + row->offset, &text, sizeof text);
}

/* A number of its own range, or a word, whose place counts from `least`. */
static int64_t read_int(lua_State *L, int idx, const sp_option *row) {
  if (!row->choices) return sp_lua_opt_int(L, idx, row->name, row->first, row->least, row->most);
  int first = (int)(row->first - row->least);
  return row->least + sp_lua_opt_choice(L, idx, row->name, row->choices, first);
}

void sp_lua_read_rows(lua_State *L, int idx, const sp_option *rows, void *to) {
  for (const sp_option *row = rows; row->name; row++) switch (row->type) {
      case SP_OPTION_TEXT: read_text(L, idx, row, to); break;
      case SP_OPTION_FLAG:
      case SP_OPTION_NOT: sp_option_set(row, to, sp_lua_opt_bool(L, idx, row->name, row->first)); break;
      case SP_OPTION_INT:
      case SP_OPTION_MIB: sp_option_set(row, to, read_int(L, idx, row)); break;
    }
}

static void push_first(lua_State *L, const sp_option *row) {
  if (row->type == SP_OPTION_TEXT) lua_pushstring(L, row->text);
  else if (row->type == SP_OPTION_FLAG || row->type == SP_OPTION_NOT) lua_pushboolean(L, row->first != 0);
  else if (row->choices) lua_pushstring(L, row->first < row->least ? "" : row->choices[row->first - row->least]);
  else lua_pushinteger(L, row->first);
}

/* As sp.args has options: { default, help, name =, min =, max =, choices =, ... } */
static void push_row(lua_State *L, const sp_option *row) {
  lua_createtable(L, 2, 10);
  push_first(L, row);
  lua_rawseti(L, -2, 1);
  lua_pushstring(L, row->help);
  lua_rawseti(L, -2, 2);
  sp_lua_set_str(L, "name", row->name);
  sp_lua_set_str(L, "value", row->value);
  sp_lua_set_str(L, "default", row->otherwise);
  sp_lua_set_str(L, "groups", row->groups);
  sp_lua_set_str(L, "resume", row->resume);
  sp_lua_set_str(L, "more", row->more);
  if (row->choices) {
    lua_newtable(L);
    for (int i = 0; row->choices[i]; i++) {
      lua_pushstring(L, row->choices[i]);
      lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "choices");
  } else if (row->type == SP_OPTION_INT || row->type == SP_OPTION_MIB) {
    sp_lua_set_int(L, "min", row->least);
    sp_lua_set_int(L, "max", row->most);
  }
}

int sp_lua_rows(lua_State *L) {
  static const char *const kinds[] = {"graph", "lane", "stage", NULL};
  const sp_option *const tables[] = {sp_graph_rows, sp_lane_rows, sp_stage_rows};
  const sp_option *row = tables[luaL_checkoption(L, 1, NULL, kinds)];
  lua_newtable(L);
  for (int i = 1; row->name; row++, i++) {
    push_row(L, row);
    lua_rawseti(L, -2, i);
  }
  return 1;
}
