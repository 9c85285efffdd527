/* SPDX-License-Identifier: MIT
 * node.c - nodes (node.port, node.attribute, node:set) and their outputs (enc.maps[2], #enc.maps, ref.shape). */
#include <math.h>
#include <string.h>

#include "lua/graph.h"

#define MAX_WEIGHT (1 << 24) /* elements of one weight that a script may ask for */

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static sp_lua_graph *graph_of_node(lua_State *L, int idx) {
  lua_getiuservalue(L, idx, 1);
  sp_lua_graph *lg = sp_lua_test_graph(L, -1);
  lua_pop(L, 1);
  if (!lg || !lg->g) sp_lua_fail(L, "the graph of this stage is closed");
  return lg;
}

sp_node *sp_lua_check_node(lua_State *L, int idx, const sp_lua_graph *lg) {
  sp_lua_node *n = luaL_testudata(L, idx, SP_LUA_NODE);
  if (!n) sp_lua_fail(L, "a stage is wanted here, got a %s", luaL_typename(L, idx));
  sp_lua_graph *of = graph_of_node(L, idx);
  if (lg && of != lg) sp_lua_fail(L, "stage '%s' belongs to another graph", sp_node_name(n->node));
  return n->node;
}

static sp_ref sole_output(lua_State *L, sp_node *node) {
  const sp_port *p = sp_node_type(node)->outputs;
  sp_ref ref = {.node = node, .port = -1};
  for (int i = 0; p && p[i].name; i++) {
    if (p[i].flags & (SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL)) continue;
    if (ref.port >= 0 && p[i].flags & SP_PORT_LIST && !sp_node_out_specs(node, i)->n) continue; /* nothing is in it */
    if (ref.port >= 0)
      sp_lua_fail(L, "stage '%s' has several outputs: say which, such as %s.%s", sp_node_name(node), sp_node_name(node),
                  p[ref.port].name);
    ref.port = i;
    ref.index = p[i].flags & SP_PORT_LIST ? -1 : 0;
  }
  if (ref.port < 0) sp_lua_fail(L, "stage '%s' has no output that can be wired", sp_node_name(node));
  return ref;
}

sp_ref sp_lua_check_ref(lua_State *L, int idx, const sp_lua_graph *lg) {
  sp_lua_ref *r = luaL_testudata(L, idx, SP_LUA_REF);
  if (!r) return sole_output(L, sp_lua_check_node(L, idx, lg));
  lua_getiuservalue(L, idx, 1);
  sp_lua_check_node(L, -1, lg);
  lua_pop(L, 1);
  return r->ref;
}

const char *sp_lua_kind(lua_State *L, int idx) {
  if (luaL_testudata(L, idx, SP_LUA_NODE)) return "node";
  return luaL_testudata(L, idx, SP_LUA_REF) ? "output" : NULL;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

void sp_lua_push_node(lua_State *L, int graph_idx, sp_node *node) {
  graph_idx = lua_absindex(L, graph_idx);
  lua_getiuservalue(L, graph_idx, 1);
  if (lua_rawgetp(L, -1, node) == LUA_TNIL) {
    lua_pop(L, 1);
    sp_lua_node *n = lua_newuserdatauv(L, sizeof *n, 1);
    n->node = node;
    lua_pushvalue(L, graph_idx);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, SP_LUA_NODE);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, node);
  }
  lua_remove(L, -2);
}

/* Pushes an output of the node userdata at `node_idx`. */
static int push_ref(lua_State *L, int node_idx, sp_ref ref) {
  node_idx = lua_absindex(L, node_idx);
  sp_lua_ref *r = lua_newuserdatauv(L, sizeof *r, 1);
  r->ref = ref;
  lua_pushvalue(L, node_idx);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, SP_LUA_REF);
  return 1;
}

/* node.set(...) and node:set(...) are easily mixed up. */
static sp_node *check_self(lua_State *L, const char *method) {
  if (!luaL_testudata(L, 1, SP_LUA_NODE)) sp_lua_fail(L, "a stage's %s() is called with a colon", method);
  return sp_lua_check_node(L, 1, NULL);
}

/* node:set(name, value) */
static int node_set(lua_State *L) {
  sp_node *node = check_self(L, "set");
  const char *name = luaL_checkstring(L, 2);
  sp_err err;
  if (node == graph_of_node(L, 1)->by_function && strcmp(name, "lr") == 0)
    return sp_lua_fail(
        L,
        "stage '%s': the learning rate of each step is what the function g:train{ lr = ... } gives, so that a "
        "rate that is set would be ignored; have the function return it, or leave lr out there",
        sp_node_name(node));
  if (lua_type(L, 3) != LUA_TNUMBER)
    return sp_lua_fail(L, "stage '%s': '%s' must be a number, got a %s", sp_node_name(node), name, luaL_typename(L, 3));
  if (sp_node_set_live(node, name, lua_tonumber(L, 3), &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* node:get(name) */
static int node_get(lua_State *L) {
  sp_node *node = check_self(L, "get");
  double value;
  sp_err err;
  if (sp_node_get_live(node, luaL_checkstring(L, 2), &value, &err)) return sp_lua_raise(L, &err);
  lua_pushnumber(L, value);
  return 1;
}

/* node.live: { name = value } of all parameters that set() takes */
static void push_live(lua_State *L, const sp_node *node) {
  lua_newtable(L);
  for (const sp_param *p = sp_node_type(node)->params; p && p->name; p++) {
    double value;
    sp_err ignored;
    if (!(p->flags & SP_PARAM_LIVE) || sp_node_get_live(node, p->name, &value, &ignored)) continue;
    lua_pushnumber(L, value);
    lua_setfield(L, -2, p->name);
  }
}

/* node:weights() -> { { name =, shape =, trained = }, ... } */
static int node_weights(lua_State *L) {
  sp_node *node = check_self(L, "weights");
  const sp_weights *of = sp_node_params(node);
  lua_createtable(L, (int)of->n_weights, 0);
  for (size_t i = 0; i < of->n_weights; i++) {
    const sp_weight *w = &of->weights[i];
    lua_createtable(L, 0, 3);
    lua_pushstring(L, w->name);
    lua_setfield(L, -2, "name");
    sp_lua_push_shape(L, &w->spec);
    lua_setfield(L, -2, "shape");
    lua_pushboolean(L, sp_weights_is_trained(of, i) && !sp_node_frozen(node));
    lua_setfield(L, -2, "trained");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static const sp_weight *find_weight(lua_State *L, sp_node *node, const char *name) {
  const sp_weights *of = sp_node_params(node);
  size_t n = of->n_weights;
  for (size_t i = 0; i < n; i++)
    if (strcmp(of->weights[i].name, name) == 0) return &of->weights[i];
  const char **names = lua_newuserdatauv(L, (n + 1) * sizeof *names, 0);
  for (size_t i = 0; i < n; i++) names[i] = of->weights[i].name;
  names[n] = NULL;
  const char *near = sp_nearest(name, names);
  sp_lua_fail(L, "stage '%s' has no weight '%s'%s%s%s", sp_node_name(node), name, near ? "; did you mean '" : "",
              near ? near : "", near ? "'?" : "");
  return NULL;
}

/* node:weight(name) -> { shape = {...}, values in row-major order } */
static int node_weight(lua_State *L) {
  sp_node *node = check_self(L, "weight");
  const char *name = luaL_checkstring(L, 2);
  sp_spec spec = find_weight(L, node, name)->spec;
  sp_err err;
  int64_t count = sp_spec_count(&spec);
  if (spec.dtype != SP_F32 || count < 0 || count > MAX_WEIGHT)
    return sp_lua_fail(L, "weight '%s' of stage '%s' is not float32 of at most %d values", name, sp_node_name(node),
                       MAX_WEIGHT);
  size_t bytes = (size_t)count * sizeof(float);
  float *v = lua_newuserdatauv(L, bytes ? bytes : 1, 0);
  if (sp_engine_weight(graph_of_node(L, 1)->e, node, name, &spec, v, bytes, &err)) return sp_lua_raise(L, &err);
  lua_createtable(L, (int)count, 1);
  for (int64_t i = 0; i < count; i++) {
    lua_pushnumber(L, (double)v[i]);
    lua_rawseti(L, -2, i + 1);
  }
  sp_lua_push_shape(L, &spec);
  lua_setfield(L, -2, "shape");
  return 1;
}

/* node:inputs() -> { { name =, list =, optional =, dtypes = { "float32" = true, ... } or nil for any }, ... } */
static int node_inputs(lua_State *L) {
  const sp_port *p = sp_node_type(check_self(L, "inputs"))->inputs;
  lua_newtable(L);
  for (int i = 0; p && p[i].name; i++) {
    lua_createtable(L, 0, 4);
    lua_pushstring(L, p[i].name);
    lua_setfield(L, -2, "name");
    lua_pushboolean(L, p[i].flags & SP_PORT_LIST);
    lua_setfield(L, -2, "list");
    lua_pushboolean(L, p[i].flags & SP_PORT_OPTIONAL);
    lua_setfield(L, -2, "optional");
    if (p[i].dtypes) {
      lua_newtable(L);
      for (int d = SP_U8; d <= SP_F64; d++) {
        lua_pushboolean(L, 1);
        if (p[i].dtypes & SP_DT(d)) lua_setfield(L, -2, sp_dtype_name(d));
        else lua_pop(L, 1);
      }
      lua_setfield(L, -2, "dtypes");
    }
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* node:outputs() -> { { name = }, ... } */
static int node_outputs(lua_State *L) {
  const sp_port *p = sp_node_type(check_self(L, "outputs"))->outputs;
  lua_newtable(L);
  for (int i = 0; p && p[i].name; i++) {
    lua_createtable(L, 0, 1);
    lua_pushstring(L, p[i].name);
    lua_setfield(L, -2, "name");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* node:producers() -> the stages whose outputs it reads, each once */
static int node_producers(lua_State *L) {
  sp_node *node = check_self(L, "producers"), *from;
  lua_newtable(L);
  lua_getiuservalue(L, 1, 1);
  for (size_t k = 0; (from = sp_node_producer(node, k)); k++) {
    sp_lua_push_node(L, -1, from);
    lua_rawseti(L, -3, (lua_Integer)k + 1);
  }
  lua_pop(L, 1);
  return 1;
}

static int no_such(lua_State *L, const sp_node *node, const char *key);

/* node:item(attribute, i): from 0 */
static int node_item(lua_State *L) {
  sp_node *node = check_self(L, "item");
  const char *name = luaL_checkstring(L, 2);
  lua_Integer i = luaL_checkinteger(L, 3);
  const sp_attr *a = sp_node_attr(node, name);
  char text[8192];
  sp_err err;
  if (!a) return no_such(L, node, name);
  if (sp_node_item(node, a, (uint64_t)i, text, sizeof text, &err)) return sp_lua_raise(L, &err);
  lua_pushstring(L, text);
  return 1;
}

static const luaL_Reg node_methods[] = {
    {"set", node_set},
    {"get", node_get},
    {"weights", node_weights},
    {"weight", node_weight},
    {"inputs", node_inputs},
    {"outputs", node_outputs},
    {"item", node_item},
    {"producers", node_producers},
    {NULL, NULL},
};

static int no_such(lua_State *L, const sp_node *node, const char *key) {
  static const char *const facts[] = {"name", "stage",  "frozen", "source",    "length", "optimizer",
                                      "loss", "on_cpu", "live",   "precision", "cache",  "eval_only"};
  const char *names[128];
  size_t n = 0;
  const sp_port *p = sp_node_type(node)->outputs;
  for (int i = 0; p && p[i].name && n < 64; i++) names[n++] = p[i].name;
  for (const luaL_Reg *r = node_methods; r->name; r++) names[n++] = r->name;
  for (size_t i = 0; i < SP_ARRAY(facts); i++) names[n++] = facts[i];
  names[n] = NULL;
  const char *near = sp_nearest(key, names);
  return sp_lua_fail(L, "stage '%s' has no output or attribute '%s'%s%s%s", sp_node_name(node), key,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* An optimizer's first output is the weights that it updates, which no stage can be given: its own are looked for. */
static bool hides_method(const sp_stage_type *type, const sp_port *p) {
  return type->flags & SP_STAGE_OPTIMIZER && p == type->outputs;
}

/* Outputs come before attributes, attributes before methods and facts: what the stage's author named wins. */
static int node_index(lua_State *L) {
  sp_node *node = sp_lua_check_node(L, 1, NULL);
  if (lua_type(L, 2) != LUA_TSTRING)
    return sp_lua_fail(L, "stage '%s' has outputs and attributes by name, not by %s", sp_node_name(node),
                       luaL_typename(L, 2));
  const char *key = lua_tostring(L, 2);
  const sp_stage_type *type = sp_node_type(node);
  const sp_port *p = type->outputs;
  for (int i = 0; p && p[i].name; i++)
    if (strcmp(p[i].name, key) == 0 && !hides_method(type, &p[i]))
      return push_ref(L, 1, (sp_ref){.node = node, .port = i, .index = p[i].flags & SP_PORT_LIST ? -1 : 0});
  const sp_attr *a = sp_node_attr(node, key);
  if (a && a->text) lua_pushstring(L, a->text);
  else if (a && a->value == floor(a->value) && fabs(a->value) < 0x1p53) lua_pushinteger(L, (lua_Integer)a->value);
  else if (a) lua_pushnumber(L, a->value);
  if (a) return 1;
  for (const luaL_Reg *r = node_methods; r->name; r++) {
    if (strcmp(r->name, key) != 0) continue;
    lua_pushcfunction(L, r->func);
    return 1;
  }
  if (strcmp(key, "name") == 0) lua_pushstring(L, sp_node_name(node));
  else if (strcmp(key, "stage") == 0) lua_pushstring(L, type->name);
  else if (strcmp(key, "frozen") == 0) lua_pushboolean(L, sp_node_frozen(node));
  else if (strcmp(key, "source") == 0) lua_pushboolean(L, sp_node_is_source(node));
  else if (strcmp(key, "length") == 0 && sp_node_is_source(node)) lua_pushinteger(L, (lua_Integer)sp_node_length(node));
  else if (strcmp(key, "optimizer") == 0) lua_pushboolean(L, type->flags & SP_STAGE_OPTIMIZER);
  else if (strcmp(key, "live") == 0) push_live(L, node);
  else if (strcmp(key, "on_cpu") == 0) lua_pushboolean(L, sp_node_on_cpu(node));
  else if (strcmp(key, "eval_only") == 0) lua_pushboolean(L, sp_node_eval_only(node));
  else if (strcmp(key, "precision") == 0) lua_pushstring(L, sp_lua_precisions[sp_node_precision(node)]);
  else if (strcmp(key, "cache") == 0) lua_pushstring(L, sp_cache_words[sp_node_cache(node)]);
  else if (strcmp(key, "loss") == 0) lua_pushboolean(L, type->flags & SP_STAGE_LOSS);
  else return no_such(L, node, key);
  return 1;
}

static int node_newindex(lua_State *L) {
  return sp_lua_fail(L, "a stage's fields cannot be assigned; live parameters: %s:set(name, value)",
                     sp_node_name(sp_lua_check_node(L, 1, NULL)));
}

static int node_tostring(lua_State *L) {
  const sp_node *node = sp_lua_check_node(L, 1, NULL);
  lua_pushfstring(L, "stage '%s' (%s)", sp_node_name(node), sp_node_type(node)->name);
  return 1;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

static bool is_planned(const sp_node *node) {
  const sp_port *p = sp_node_type(node)->outputs;
  for (int i = 0; p && p[i].name; i++)
    if (sp_node_out_specs(node, i)->n) return true;
  return false;
}

/* A list may have nothing in it once the stage is planned. */
static const sp_speclist *ref_specs(lua_State *L, sp_ref ref) {
  const sp_speclist *s = sp_node_out_specs(ref.node, ref.port);
  if (s->n == 0 && (ref.index >= 0 || !is_planned(ref.node)))
    sp_lua_fail(L, "output '%s' of stage '%s' is not known before the stage's inputs are wired",
                sp_node_type(ref.node)->outputs[ref.port].name, sp_node_name(ref.node));
  return s;
}

static int ref_len(lua_State *L) {
  sp_ref ref = sp_lua_check_ref(L, 1, NULL);
  if (ref.index >= 0)
    return sp_lua_fail(L, "output '%s' of stage '%s' is one tensor, not a list",
                       sp_node_type(ref.node)->outputs[ref.port].name, sp_node_name(ref.node));
  lua_pushinteger(L, ref_specs(L, ref)->n);
  return 1;
}

static int ref_item(lua_State *L, sp_ref ref) {
  const char *port = sp_node_type(ref.node)->outputs[ref.port].name;
  lua_Integer i = luaL_checkinteger(L, 2);
  if (ref.index >= 0)
    return sp_lua_fail(L, "output '%s' of stage '%s' is one tensor, not a list", port, sp_node_name(ref.node));
  const sp_speclist *s = ref_specs(L, ref);
  if (s->n == 0) return sp_lua_fail(L, "output '%s' of stage '%s' is an empty list", port, sp_node_name(ref.node));
  if (i < 1 || (lua_Unsigned)i > s->n)
    return sp_lua_fail(L, "output '%s' of stage '%s' has items 1..%u, not %lld", port, sp_node_name(ref.node), s->n,
                       (long long)i);
  ref.index = (int)i - 1;
  lua_getiuservalue(L, 1, 1);
  return push_ref(L, -1, ref);
}

static int ref_index(lua_State *L) {
  static const char *const names[] = {"shape", "dtype", "name", "stage", "list", "item", NULL};
  sp_ref ref = sp_lua_check_ref(L, 1, NULL);
  if (lua_type(L, 2) == LUA_TNUMBER) return ref_item(L, ref);
  const char *key = luaL_checkstring(L, 2), *port = sp_node_type(ref.node)->outputs[ref.port].name;
  if (strcmp(key, "name") == 0) {
    lua_pushfstring(L, "%s.%s", sp_node_name(ref.node), port);
  } else if (strcmp(key, "stage") == 0) {
    lua_getiuservalue(L, 1, 1);
  } else if (strcmp(key, "list") == 0) {
    lua_pushboolean(L, ref.index < 0);
  } else if (strcmp(key, "item") == 0) { /* which one of a list; nil: it is none, or all of it */
    if (ref.index >= 0 && (sp_node_type(ref.node)->outputs[ref.port].flags & SP_PORT_LIST))
      lua_pushinteger(L, ref.index + 1);
    else lua_pushnil(L);
  } else if (strcmp(key, "shape") == 0 || strcmp(key, "dtype") == 0) {
    if (ref.index < 0)
      return sp_lua_fail(L, "output '%s' of stage '%s' is a list: say which, such as %s[1].%s", port,
                         sp_node_name(ref.node), port, key);
    const sp_spec *s = &ref_specs(L, ref)->spec[ref.index];
    if (key[0] == 's') sp_lua_push_shape(L, s);
    else lua_pushstring(L, sp_dtype_name(s->dtype));
  } else {
    const char *near = sp_nearest(key, names);
    return sp_lua_fail(L, "output '%s' of stage '%s' has no field '%s'%s%s%s", port, sp_node_name(ref.node), key,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  return 1;
}

static int ref_tostring(lua_State *L) {
  sp_ref ref = sp_lua_check_ref(L, 1, NULL);
  char spec[160];
  const sp_speclist *s = sp_node_out_specs(ref.node, ref.port);
  lua_pushfstring(L, "%s.%s", sp_node_name(ref.node), sp_node_type(ref.node)->outputs[ref.port].name);
  if (ref.index >= 0 && (uint32_t)ref.index < s->n)
    lua_pushfstring(L, " %s", sp_spec_str(&s->spec[ref.index], spec, sizeof spec));
  else lua_pushfstring(L, " (a list of %d)", (int)s->n);
  lua_concat(L, 2);
  return 1;
}

/* ---- metatables -------------------------------------------------------------------------------------------------- */

void sp_lua_open_node(lua_State *L) {
  static const luaL_Reg node_meta[] = {
      {"__index", node_index},
      {"__newindex", node_newindex},
      {"__tostring", node_tostring},
      {NULL, NULL},
  };
  static const luaL_Reg ref_meta[] = {
      {"__index", ref_index},
      {"__len", ref_len},
      {"__tostring", ref_tostring},
      {NULL, NULL},
  };
  luaL_newmetatable(L, SP_LUA_NODE);
  luaL_setfuncs(L, node_meta, 0);
  luaL_newmetatable(L, SP_LUA_REF);
  luaL_setfuncs(L, ref_meta, 0);
  lua_pop(L, 2);
}
