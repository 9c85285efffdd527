/* SPDX-License-Identifier: MIT
 * strategies_ops.c - changed lists of operations. Without any one WAIT, RECORD or SYNC the proof of a program's final
 * list must fail; with two neighbours of one lane swapped it must fail, or the list must be as good: what it lets
 * through is played, and strategies_ops.lua compares what came of it with `serialized`. With one or two random changes
 * (operations that move or change places, other events, smaller rings) it must fail, or the oracle finds no race. */
#include "strategies.h"
#include "strategies_races.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params/params.h"
#include "lua/graph.h"
#include "run/loop.h"
#include "tests/kit/sched_oracle.h"

/* A program of a graph, made as the engine makes it, but with a list that can be changed before it is built. */
typedef struct unit {
  sp_graph *g;
  sp_program *p;
  sp_machine *m;
  sp_pool *pool;
} unit;

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static void free_unit(unit *u) {
  sp_machine_free(u->m);
  sp_program_free(u->p);
  sp_pool_free(u->pool);
}

/* The k-th source that training does not read, or NULL: k 0 is training itself. */
static sp_node *stand_in(const sp_graph *g, lua_Integer k) {
  for (size_t i = 0; i < g->n_nodes && k > 0; i++)
    if (g->nodes[i]->source && g->nodes[i] != g->train.source && --k == 0) return g->nodes[i];
  return NULL;
}

static lua_Integer count_units(const sp_graph *g) {
  lua_Integer n = 1;
  while (stand_in(g, n)) n++;
  return n;
}

static int make_unit(unit *u, sp_graph *g, lua_Integer k, sp_err *err) {
  *u = (unit){.g = g};
  int st = sp_graph_complete(g, err);
  if (!st) st = sp_store_make_factors(&g->store, err);
  for (size_t i = 0; i < g->n_nodes && !st; i++) st = sp_weights_storage(&g->nodes[i]->params, err);
  if (!st) st = sp_program_new(&u->p, g, stand_in(g, k), g->strategy, err);
  if (!st) st = sp_pool_new(&u->pool, g->main.type, g->main.dev, (size_t)1 << 30, "--pinned", err);
  if (!st) st = sp_machine_new(&u->m, u->p, u->pool, err);
  if (st) free_unit(u);
  return st;
}

/* ---- changed lists ----------------------------------------------------------------------------------------------- */

/* The next operation of i's lane, in the same body; SIZE_MAX: none, or it is a graph. */
static size_t neighbour(const sp_ops *o, size_t i) {
  size_t k = i + 1, body = sp_ops_body(o, i);
  while (k < o->n && o->op[k].lane != o->op[i].lane) k++;
  bool graph = o->op[i].kind == SP_OP_LAUNCH || k >= o->n || o->op[k].kind == SP_OP_LAUNCH;
  return graph || sp_ops_body(o, k) != body ? SIZE_MAX : k;
}

static void swap(sp_ops *o, size_t i, size_t k) {
  sp_op op = o->op[i];
  o->op[i] = o->op[k];
  o->op[k] = op;
}

static bool proved(const unit *u, const sp_ops *o) {
  sp_err ignored;
  return !sp_ops_prove(o, &u->p->in, u->p->sched.slots, &ignored);
}

/* What the proof and --check-races say without operation i. `room` has place for all operations. */
static bool proved_without(const unit *u, size_t i, sp_op *room, sp_err *races) {
  sp_ops less = u->m->ops;
  sp_err proof;
  memcpy(room, less.op, less.n * sizeof *room);
  less.op = room;
  sp_ops_remove(&less, i);
  int st = sp_ops_prove(&less, &u->p->in, u->p->sched.slots, &proof);
  *races = (sp_err){.status = SP_E_RACE};
  if (st == SP_E_RACE) sf_races(&less, &u->p->in, u->p->sched.slots, races);
  if (st && races->status != SP_E_RACE) sp_prefix(races, "%s; the proof says %s", "no race", proof.msg);
  return !st;
}

static bool orders(const sp_op *op) {
  return op->kind == SP_OP_WAIT || op->kind == SP_OP_SYNC || op->kind == SP_OP_RECORD;
}

static void put_op(const unit *u, const sp_op *op, sp_sb *out) {
  sp_sb_putf(out, "%s of %s", sp_op_name(op->kind), op->task < 0 ? "a tick" : u->p->tasks[op->task].name);
  if (op->kind == SP_OP_WAIT || op->kind == SP_OP_SYNC)
    sp_sb_putf(out, " for %s, %d back", u->p->tasks[op->from].name, op->back);
}

/* The first deletion that the proof does not notice, or --check-races does not, though the proof does; SIZE_MAX: none.
 * *n counts those that both notice. */
static size_t unnoticed(const unit *u, sp_op *room, lua_Integer *n, const char **who) {
  for (size_t i = 0; i < u->m->ops.n; i++) {
    sp_err races;
    if (!orders(&u->m->ops.op[i])) continue;
    bool holds = proved_without(u, i, room, &races);
    *who = holds ? "the proof holds" : "--check-races finds nothing";
    if (holds || races.status != SP_E_RACE) return i;
    ++*n;
  }
  return SIZE_MAX;
}

/* { program, i, k, words } */
static void push_swap(lua_State *L, const unit *u, lua_Integer which, size_t i, size_t k) {
  const lua_Integer v[] = {which, (lua_Integer)i, (lua_Integer)k};
  sp_sb words = {0};
  lua_createtable(L, 4, 0);
  for (int j = 0; j < 3; j++) {
    lua_pushinteger(L, v[j]);
    lua_rawseti(L, -2, j + 1);
  }
  put_op(u, &u->m->ops.op[i], &words);
  sp_sb_put(&words, " and ");
  put_op(u, &u->m->ops.op[k], &words);
  lua_pushstring(L, sp_sb_str(&words));
  lua_rawseti(L, -2, 4);
  sp_sb_free(&words);
}

/* Appends what push_swap says for each swap that the proof lets through to the list on top; those that swap two waits,
 * which cannot matter, to the one below it. Returns how many were tried. */
static lua_Integer try_swaps(lua_State *L, const unit *u, lua_Integer which) {
  lua_Integer n = 0;
  sp_ops *o = &u->m->ops;
  for (size_t i = 0; i < o->n; i++) {
    size_t k = neighbour(o, i);
    if (k == SIZE_MAX) continue;
    bool waits = o->op[i].kind == o->op[k].kind && (o->op[i].kind == SP_OP_WAIT || o->op[i].kind == SP_OP_SYNC);
    n++;
    swap(o, i, k);
    bool through = proved(u, o);
    swap(o, i, k);
    if (!through) continue;
    push_swap(L, u, which, i, k);
    int list = waits ? -3 : -2;
    lua_rawseti(L, list, luaL_len(L, list) + 1);
  }
  return n;
}

/* What is proved with one or two changes must not race. Returns words, or NULL; *held counts what does not, without
 * lists too large for the oracle. */
static const char *try_changes(const unit *u, lua_Integer n, lua_Integer which, lua_Integer *held, sp_err *err) {
  const sp_sched_input *in = &u->p->in;
  uint64_t state = (uint64_t)u->m->ops.n * 7919 + (uint64_t)which;
  for (lua_Integer k = 0; k < n; k++) {
    sp_ops changed;
    sp_err ignored;
    if (!so_copy(&changed, &u->m->ops, in)) return "no memory for a list";
    for (uint32_t left = 1 + so_below(&state, 2); left > 0; left--) so_change(&changed, in, &state);
    bool holds = !sp_ops_prove(&changed, in, u->p->sched.slots, &ignored);
    so_verdict verdict = holds ? so_judge(&changed, in, u->p->sched.slots, state, err) : SO_TOO_LARGE;
    *held += verdict == SO_FINE;
    sp_ops_free(&changed);
    if (verdict == SO_RACES) return err->msg;
  }
  return NULL;
}

/* The waits of training's list into the table on top, from its middle on. */
static void list_waits(lua_State *L, const unit *u) {
  size_t n = u->m->ops.n;
  for (size_t k = 0; k < n; k++) {
    size_t i = (n / 2 + k) % n;
    if (u->m->ops.op[i].kind != SP_OP_WAIT) continue;
    lua_pushinteger(L, (lua_Integer)i);
    lua_rawseti(L, -2, luaL_len(L, -2) + 1);
  }
}

typedef struct sums {
  lua_Integer deleted, swapped, changed, held;
} sums;

/* One program's; pushes words where something is wrong. */
static bool mutate_unit(lua_State *L, sp_graph *g, lua_Integer which, lua_Integer changes, sums *sum) {
  unit u;
  sp_err err;
  if (make_unit(&u, g, which, &err)) {
    lua_pushstring(L, err.msg);
    return false;
  }
  sp_op *room = sp_calloc(u.m->ops.n + 1, sizeof *room);
  const char *who = "", *race = try_changes(&u, changes, which, &sum->held, &err);
  sum->changed += changes;
  size_t i = room ? unnoticed(&u, room, &sum->deleted, &who) : 0;
  sp_sb words = {0};
  if (race) {
    sp_sb_putf(&words, "program %d: proved with random changes, but %s", (int)which, race);
    lua_pushstring(L, sp_sb_str(&words));
    i = 0;
  } else if (sf_races(&u.m->ops, &u.p->in, u.p->sched.slots, &err)) {
    sp_sb_putf(&words, "program %d: --check-races finds in what the proof holds for: %s", (int)which, err.msg);
    lua_pushstring(L, sp_sb_str(&words));
    i = 0;
  } else if (i == SIZE_MAX) {
    sum->swapped += try_swaps(L, &u, which);
    lua_pushvalue(L, -3);
    if (which == 0) list_waits(L, &u);
    lua_pop(L, 1);
  } else {
    sp_sb_putf(&words, "program %d: %s without operation %zu of %zu, ", (int)which, who, i, u.m->ops.n);
    put_op(&u, &u.m->ops.op[i], &words);
    lua_pushstring(L, sp_sb_str(&words));
  }
  sp_sb_free(&words);
  free(room);
  free_unit(&u);
  return i == SIZE_MAX;
}

/* mutants(graph, changes) -> nil, words | the waits of training's list, swaps of two waits that the proof lets through,
 * other swaps, deletions that it does not, swaps tried, random changes, those that it lets through */
static int fuzz_mutants(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lua_Integer changes = luaL_checkinteger(L, 2), n = count_units(lg->g);
  sums sum = {0};
  lua_settop(L, 1);
  lua_newtable(L);
  lua_newtable(L);
  lua_newtable(L);
  for (lua_Integer k = 0; k < n; k++) {
    if (mutate_unit(L, lg->g, k, changes, &sum)) continue;
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  const lua_Integer counts[] = {sum.deleted, sum.swapped, sum.changed, sum.held};
  for (size_t i = 0; i < SP_ARRAY(counts); i++) lua_pushinteger(L, counts[i]);
  return 7;
}

/* ---- running them ------------------------------------------------------------------------------------------------ */

static uint64_t add_result(uint64_t h, const sp_result *r) {
  h = sp_fnv64(h, &r->step, sizeof r->step);
  h = sp_fnv64(h, &r->lr, sizeof r->lr);
  for (size_t i = 0; i < r->n_metrics; i++) h = sp_fnv64(h, r->metrics[i].data, sp_spec_bytes(&r->metrics[i].spec));
  for (size_t i = 0; i < r->n_hashes; i++) h = sp_fnv64(h, &r->hashes[i].hash, sizeof r->hashes[i].hash);
  return h;
}

static int add_weights(const sp_graph *g, uint64_t *h, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < g->n_nodes && !st; i++)
    for (size_t k = 0; k < g->nodes[i]->params.n_weights && !st; k++) {
      const sp_weight *w = &g->nodes[i]->params.weights[k];
      size_t bytes = sp_spec_bytes(&w->spec);
      sp_spec spec;
      void *data = sp_calloc(bytes + 1, 1);
      st = data ? sp_weights_read(&g->nodes[i]->params, w->name, &spec, data, bytes, err)
                : sp_nomem(err, bytes, w->name);
      if (!st) *h = sp_fnv64(*h, data, bytes);
      free(data);
    }
  return st;
}

/* All steps' results, then the weights; what a run that is to fail leaves of them depends on how far the rest was. */
static int play(unit *u, uint64_t steps, uint64_t *h, sp_err *err) {
  const sp_result *r = NULL;
  sp_loop loop;
  int st = u->g->store.initialised ? SP_OK : sp_store_init(&u->g->store, err);
  if (!st) st = sp_machine_build(u->m, NULL, err);
  if (!st) st = sp_store_keep_statistics(&u->g->store, err);
  if (st) return st;
  sp_loop_init(&loop, u->m);
  if ((st = sp_loop_begin(&loop, 0, u->p->training ? steps : u->m->feed.steps, err))) return st;
  while (!(st = sp_loop_next(&loop, &r, err)) && r) *h = add_result(*h, r);
  return st ? st : add_weights(u->g, h, err);
}

/* play(graph, program, i, k, steps) -> what came of it, in words that are the same for the same bits. i and k of the
 * list are swapped, where they differ; k -1: i is taken out. */
static int fuzz_play(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lua_Integer i = luaL_checkinteger(L, 3), k = luaL_checkinteger(L, 4);
  uint64_t h = SP_FNV64;
  unit u;
  sp_err err = {0};
  int st = make_unit(&u, lg->g, luaL_checkinteger(L, 2), &err);
  if (st) return sp_lua_raise(L, &err);
  if (k < 0) sp_ops_remove(&u.m->ops, (size_t)i);
  else if (i != k) swap(&u.m->ops, (size_t)i, (size_t)k);
  lg->L = L;
  lg->self = 1;
  st = play(&u, (uint64_t)luaL_checkinteger(L, 5), &h, &err);
  lg->L = NULL;
  free_unit(&u);
  lua_pushfstring(L, "%s%s", st ? err.msg : "", st ? ", after " : "");
  char digest[32];
  snprintf(digest, sizeof digest, "%016" PRIx64, h);
  lua_pushstring(L, digest);
  lua_concat(L, 2);
  return 1;
}

void sf_add_ops(lua_State *L) {
  lua_pushcfunction(L, fuzz_mutants);
  lua_setfield(L, -2, "mutants");
  lua_pushcfunction(L, fuzz_play);
  lua_setfield(L, -2, "play");
}
