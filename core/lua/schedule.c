/* SPDX-License-Identifier: MIT
 * schedule.c - g:plan_info(): the training's program as a Lua table; scripts/spcore/schedule.lua puts it into words. */
#include "lua/graph.h"

static void set_bool(lua_State *L, const char *key, bool v) {
  lua_pushboolean(L, v);
  lua_setfield(L, -2, key);
}

/* The value on top to the end of the list below it. */
static void append(lua_State *L) { lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1); }

/* A task or a lane, counted from 1. */
static void append_index(lua_State *L, int i) {
  lua_pushinteger(L, i + 1);
  append(L);
}

/* { name =, delay =, priority =, host =, used = }: a lane that is not used has no task. */
static void push_lanes(lua_State *L, const sp_program *p) {
  lua_createtable(L, (int)p->n_lanes, 0);
  for (size_t i = 0; i < p->n_lanes; i++) {
    const sp_lane *l = &p->lanes[i];
    lua_createtable(L, 0, 5);
    sp_lua_set_str(L, "name", l->props.name);
    sp_lua_set_int(L, "delay", l->host ? p->collect_delay : l->props.delay);
    sp_lua_set_int(L, "priority", l->props.priority);
    set_bool(L, "host", l->host);
    set_bool(L, "used", l->used);
    append(L);
  }
}

/* { name =, lane =, every =, phase = }: it runs at steps s with s % every == phase */
static void push_tasks(lua_State *L, const sp_program *p) {
  lua_createtable(L, (int)p->n_tasks, 0);
  for (size_t i = 0; i < p->n_tasks; i++) {
    lua_createtable(L, 0, 4);
    sp_lua_set_str(L, "name", p->tasks[i].name);
    sp_lua_set_int(L, "lane", p->tasks[i].lane + 1);
    sp_lua_set_int(L, "every", p->tasks[i].every);
    sp_lua_set_int(L, "phase", p->tasks[i].phase);
    append(L);
  }
}

static void append_waits(lua_State *L, size_t task, const sp_sched_wait *waits, size_t n) {
  for (size_t k = 0; k < n; k++) {
    lua_createtable(L, 0, 3);
    sp_lua_set_int(L, "task", (lua_Integer)task + 1);
    sp_lua_set_int(L, "from", waits[k].task + 1);
    sp_lua_set_int(L, "back", waits[k].back);
    append(L);
  }
}

/* { task =, from =, back = }, by task: those that are kept, or those that they imply. */
static void push_waits(lua_State *L, const sp_schedule *s, bool implied) {
  lua_newtable(L);
  for (size_t i = 0; i < s->n_items; i++) {
    const sp_sched_item *it = &s->items[i];
    append_waits(L, i, implied ? it->implied : it->waits, implied ? it->n_implied : it->n_waits);
  }
}

/* The lanes whose tasks access a buffer so, each once. */
static void push_users(lua_State *L, const sp_program *p, size_t buf, int mode) {
  lua_newtable(L);
  for (size_t l = 0; l < p->n_lanes; l++) {
    bool uses = false;
    for (size_t i = 0; i < p->n_tasks; i++)
      for (size_t a = 0; a < p->tasks[i].n_acc && p->tasks[i].lane == (int)l; a++)
        uses = uses || (p->tasks[i].acc[a].resource == (int)buf && p->tasks[i].acc[a].mode & mode);
    if (uses) append_index(L, (int)l);
  }
}

/* { name =, bytes =, slots =, writers = { lane, ... }, readers = { lane, ... } } of those with memory */
static void push_buffers(lua_State *L, const sp_program *p) {
  lua_newtable(L);
  for (size_t i = 0; i < p->n_bufs; i++) {
    if (!p->bufs[i].bytes) continue;
    lua_createtable(L, 0, 5);
    sp_lua_set_str(L, "name", p->bufs[i].name);
    sp_lua_set_int(L, "bytes", (lua_Integer)p->bufs[i].bytes);
    sp_lua_set_int(L, "slots", p->bufs[i].slots);
    push_users(L, p, i, SP_WRITE);
    lua_setfield(L, -2, "writers");
    push_users(L, p, i, SP_READ);
    lua_setfield(L, -2, "readers");
    append(L);
  }
}

/* { lane =, calls = { task, ... } } */
static void push_launches(lua_State *L, const sp_ops *ops) {
  lua_newtable(L);
  for (size_t i = 0; i < ops->n; i++) {
    if (ops->op[i].kind != SP_OP_LAUNCH) continue;
    lua_createtable(L, 0, 2);
    sp_lua_set_int(L, "lane", ops->op[i].lane + 1);
    lua_newtable(L);
    for (size_t k = i + 1; k <= i + (size_t)ops->op[i].n; k++)
      if (ops->op[k].kind == SP_OP_CALL || ops->op[k].kind == SP_OP_COPY) append_index(L, ops->op[k].task);
    lua_setfield(L, -2, "calls");
    append(L);
  }
}

int sp_lua_plan_info(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const sp_program *p;
  const sp_ops *ops;
  sp_err err;
  if (sp_engine_program(lg->e, &p, &ops, &err)) return sp_lua_raise(L, &err);
  lua_createtable(L, 0, 9);
  sp_lua_set_str(L, "strategy", p->strategy);
  sp_lua_set_int(L, "phases", p->ring);
  push_lanes(L, p);
  lua_setfield(L, -2, "lanes");
  push_tasks(L, p);
  lua_setfield(L, -2, "tasks");
  lua_createtable(L, (int)p->n_tasks, 0);
  for (size_t i = 0; i < p->n_tasks; i++) append_index(L, p->sched.order[i]);
  lua_setfield(L, -2, "order");
  push_waits(L, &p->sched, false);
  lua_setfield(L, -2, "waits");
  push_waits(L, &p->sched, true);
  lua_setfield(L, -2, "implied");
  push_buffers(L, p);
  lua_setfield(L, -2, "buffers");
  push_launches(L, ops);
  lua_setfield(L, -2, "launches");
  return 1;
}
