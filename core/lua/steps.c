/* SPDX-License-Identifier: MIT
 * steps.c - the step loop and evaluation of a graph object: metrics as Lua values, checksums to a file. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lua/graph.h"
#include "lua/signals.h"

/* ---- learning rate ----------------------------------------------------------------------------------------------- */

int sp_lua_lr(void *arg, uint64_t step, double *lr, sp_err *err) {
  sp_lua_graph *lg = arg;
  lua_State *L = lg->L;
  if (!L || !lua_checkstack(L, 8)) return sp_fail(err, SP_E_STATE, "the learning-rate function cannot be called here");
  int top = lua_gettop(L), ok = 0;
  lua_getiuservalue(L, lg->self, 2);
  lua_pushinteger(L, (lua_Integer)step);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    const char *msg = lua_tostring(L, -1);
    sp_fail(err, SP_E_INVALID, "learning rate at step %" PRIu64 ": %s", sp_step_said(step), msg ? msg : "error");
    lua_setiuservalue(L, lg->self, 3);
    lg->lr_raised = true;
    lua_settop(L, top);
    return err->status;
  }
  *lr = lua_tonumberx(L, -1, &ok);
  bool number = ok && lua_type(L, -1) == LUA_TNUMBER;
  int rc = SP_OK;
  if (!number)
    rc = sp_fail(err, SP_E_INVALID, "the learning-rate function gave a %s at step %" PRIu64 ", not a number",
                 luaL_typename(L, -1), sp_step_said(step));
  else if (!isfinite(*lr))
    rc = sp_fail(err, SP_E_RANGE, "the learning-rate function gave %g at step %" PRIu64, *lr, sp_step_said(step));
  lua_settop(L, top);
  return rc;
}

/* Around every call of the core that may call back. */
static void enter(lua_State *L, sp_lua_graph *lg, int self) {
  lg->L = L;
  lg->self = self;
  lg->busy = true;
}

static void leave(sp_lua_graph *lg) {
  lg->L = NULL;
  lg->busy = false;
}

/* An error of the learning-rate function is passed on as it was: it names its own line, or is no string at all. */
static int raise(lua_State *L, sp_lua_graph *lg, int self, const sp_err *err) {
  if (!lg->lr_raised) return sp_lua_raise(L, err);
  lg->lr_raised = false;
  lua_getiuservalue(L, self, 3);
  return lua_error(L);
}

/* ---- tensors as Lua values --------------------------------------------------------------------------------------- */

static void push_element(lua_State *L, int dtype, const void *data, int64_t i) {
  switch (dtype) {
    case SP_U8: lua_pushinteger(L, ((const uint8_t *)data)[i]); break;
    case SP_I8: lua_pushinteger(L, ((const int8_t *)data)[i]); break;
    case SP_I32: lua_pushinteger(L, ((const int32_t *)data)[i]); break;
    case SP_I64: lua_pushinteger(L, ((const int64_t *)data)[i]); break;
    case SP_F32: lua_pushnumber(L, (double)((const float *)data)[i]); break;
    case SP_F64: lua_pushnumber(L, ((const double *)data)[i]); break;
    default: lua_pushnil(L); /* half floats: no stage has them as a metric */
  }
}

static void push_dims(lua_State *L, const sp_spec *s, const void *data, int dim, int64_t *at) {
  if (dim == s->ndim) {
    push_element(L, s->dtype, data, (*at)++);
    return;
  }
  luaL_checkstack(L, 2, "metric");
  lua_createtable(L, (int)s->shape[dim], 0);
  for (int64_t i = 0; i < s->shape[dim]; i++) {
    push_dims(L, s, data, dim + 1, at);
    lua_rawseti(L, -2, i + 1);
  }
}

void sp_lua_push_tensor(lua_State *L, const sp_spec *s, const void *data, bool raw) {
  int64_t at = 0, bytes = sp_spec_bytes(s);
  if (s->order != SP_ROW_MAJOR && bytes > 0) { /* in a value of Lua's, which goes if something is raised */
    sp_spec plain = *s;
    plain.order = SP_ROW_MAJOR;
    void *copy = lua_newuserdatauv(L, (size_t)bytes, 0);
    sp_spec_copy(&plain, copy, s, data);
    sp_lua_push_tensor(L, &plain, copy, raw);
    lua_remove(L, -2);
  } else if (raw) {
    lua_pushlstring(L, data, bytes > 0 ? (size_t)bytes : 0);
  } else {
    push_dims(L, s, data, 0, &at);
  }
}

/* A mean over nothing: as many NaN as it has numbers. */
static void push_none(lua_State *L, const sp_spec *s) {
  sp_spec of = *s;
  of.dtype = SP_F64;
  of.order = SP_ROW_MAJOR;
  int64_t n = sp_spec_count(&of), at = 0;
  double *none = lua_newuserdatauv(L, n > 0 ? (size_t)n * sizeof *none : 1, 0);
  for (int64_t i = 0; i < n; i++) none[i] = NAN;
  push_dims(L, &of, none, 0, &at);
  lua_remove(L, -2);
}

/* ---- checksums --------------------------------------------------------------------------------------------------- */

void sp_lua_close_sums(sp_lua_graph *lg) {
  if (lg->sums) fclose(lg->sums);
  free(lg->sums_path);
  lg->sums = NULL;
  lg->sums_path = NULL;
}

/* g:checksums(path): from now on each step writes a line {"step":0,"hashes":{"encoder.features":"0123456789abcdef",
 * "encoder.maps[1]":null}} into a new file: what is there already is another run's. */
static int steps_checksums(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const char *path = luaL_checkstring(L, 2);
  sp_lua_close_sums(lg);
  lg->sums_path = sp_strdup(path);
  lg->sums = lg->sums_path ? fopen(path, lua_toboolean(L, 3) ? "ae" : "wxe") : NULL;
  if (!lg->sums) return sp_lua_fail(L, "%s: %s", path, strerror(errno));
  return 0;
}

static int write_sums(sp_lua_graph *lg, const sp_result *r, sp_err *err) {
  sp_sb line = {0};
  sp_sb_putf(&line, "{\"step\":%" PRIu64 ",\"hashes\":{", r->step);
  for (size_t i = 0; i < r->n_hashes; i++) {
    if (i) sp_sb_put(&line, ",");
    sp_sb_json(&line, r->hashes[i].name);
    sp_sb_putf(&line, ":\"%016" PRIx64 "\"", r->hashes[i].hash);
  }
  for (size_t i = 0; i < r->n_absent; i++) {
    if (i || r->n_hashes) sp_sb_put(&line, ",");
    sp_sb_json(&line, r->absent[i]);
    sp_sb_put(&line, ":null");
  }
  sp_sb_put(&line, "}}\n");
  int rc = SP_OK;
  errno = 0;
  if (line.broken) rc = sp_nomem(err, line.n, "checksums");
  else if (fwrite(line.s, 1, line.n, lg->sums) != line.n || fflush(lg->sums) != 0)
    rc = sp_fail(err, SP_E_IO, "%s: %s", lg->sums_path, strerror(errno));
  sp_sb_free(&line);
  return rc;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void share(const sp_lua_graph *lg) {
  if (sp_engine_is_shared(lg->e)) sp_lua_share_signals();
}

static void take_asked(sp_lua_graph *lg, const sp_result *r) {
  sp_lua_agree(r->asked & 255);
  lg->told |= r->asked >> 8;
}

/* g:ask(bits) -> the bits that any rank had asked in what was given out since the last call. Of a job of several ranks:
 * all see the same. 16 bits */
static int steps_ask(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lg->asks = (uint32_t)(luaL_checkinteger(L, 2) & 0xffff);
  lua_pushinteger(L, sp_engine_is_shared(lg->e) ? lg->told : lg->asks);
  lg->told = 0;
  return 1;
}

/* g:begin(n): n 0 or nil: without end */
static int steps_begin(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lua_Integer n = luaL_optinteger(L, 2, 0);
  sp_err err;
  if (n < 0) return sp_lua_fail(L, "the number of steps is %lld, below 0", (long long)n);
  if (lg->looping) return sp_lua_fail(L, "a loop over this graph's steps is under way already");
  lg->lr_raised = false;
  enter(L, lg, 1);
  int rc = sp_engine_begin(lg->e, (uint64_t)n, &err);
  leave(lg);
  if (rc) return raise(L, lg, 1, &err);
  lg->looping = true;
  share(lg);
  return 0;
}

/* g:pause(every): see sp_engine_pause */
static int steps_pause(lua_State *L) {
  sp_err err;
  if (sp_engine_pause(sp_lua_check_graph(L, 1)->e, (uint64_t)luaL_checkinteger(L, 2), &err))
    return sp_lua_raise(L, &err);
  return 0;
}

static int stop(lua_State *L, sp_lua_graph *lg, int self) {
  sp_err err;
  if (!lg->looping) return 0;
  lg->looping = false;
  enter(L, lg, self);
  int rc = sp_engine_stop(lg->e, &err);
  leave(lg);
  if (rc) return raise(L, lg, self, &err);
  lg->lr_raised = false; /* what failed in a step behind the end is nobody's */
  return 0;
}

static void push_pace(lua_State *L, const sp_pace *p) {
  lua_pushinteger(L, p->slowest);
  lua_setfield(L, -2, "slowest_rank");
  lua_pushnumber(L, 1e3 * p->behind);
  lua_setfield(L, -2, "slowest_ms");
  lua_pushnumber(L, p->waited);
  lua_setfield(L, -2, "comm_share");
}

/* What a step may have or not: those that scripts ask for give nil. */
static const char *const may_be[] = {"eval",    "evals", "lr",     "slowest_rank", "slowest_ms", "comm_share",
                                     "n",       "epoch", "counts", "loss",         "top1",       "topk",
                                     "counted", "iou",   "time",   "step",         "accuracy"};

/* A name that is spelt wrong is an error, as one of an option is; one that is like no other may be of a metric that
 * this graph has not. */
static int no_metric(lua_State *L) {
  const char *names[128], *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
  size_t n = 0;
  for (size_t i = 0; key && i < SP_ARRAY(may_be); i++)
    if (strcmp(key, may_be[i]) == 0) return 0;
  if (!key) return 0;
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || n + 1 >= SP_ARRAY(names)) continue;
    names[n++] = lua_tostring(L, -2);
  }
  names[n] = NULL;
  const char *near = sp_nearest(key, names);
  return near ? sp_lua_fail(L, "no metric '%s'; did you mean '%s'?", key, near) : 0;
}

static void push_result(lua_State *L, const sp_lua_graph *lg, const sp_result *r) {
  lua_createtable(L, 0, (int)r->n_metrics + 6);
  for (size_t i = 0; i < r->n_metrics; i++) {
    const sp_metric *m = &r->metrics[i];
    if (m->result && !r->n) continue;
    if (sp_metric_is_none(m)) push_none(L, &m->spec);
    else sp_lua_push_tensor(L, &m->spec, m->data, m->result && lg->raw_results);
    lua_setfield(L, -2, m->name);
  }
  lua_pushinteger(L, (lua_Integer)r->step);
  lua_setfield(L, -2, "step");
  lua_pushinteger(L, (lua_Integer)r->epoch);
  lua_setfield(L, -2, "epoch");
  lua_pushinteger(L, r->n);
  lua_setfield(L, -2, "n");
  lua_pushboolean(L, r->updated);
  lua_setfield(L, -2, "updated");
  lua_pushnumber(L, r->time);
  lua_setfield(L, -2, "time");
  if (!isnan(r->lr)) {
    lua_pushnumber(L, r->lr);
    lua_setfield(L, -2, "lr");
  }
  if (r->pace) push_pace(L, r->pace);
  if (luaL_newmetatable(L, "spcore.metrics")) {
    lua_pushcfunction(L, no_metric);
    lua_setfield(L, -2, "__index");
  }
  lua_setmetatable(L, -2);
}

/* g:next() -> step, metrics; nothing at the end. Also the iterator of a generic for. */
static int steps_next(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  const sp_result *r = NULL;
  sp_err err;
  if (!lg->looping) return 0;
  if (sp_lua_interrupted() && !lg->held) return stop(L, lg, 1);
  enter(L, lg, 1);
  int rc;
  do rc = sp_engine_next(lg->e, &r, &err); /* steps of no request are nobody's business */
  while (!rc && r && !r->n && !lg->answered && sp_graph_queue(lg->g));
  leave(lg);
  if (rc) {
    lg->looping = false;
    return raise(L, lg, 1, &err);
  }
  if (!r) {
    lg->looping = false;
    return 0;
  }
  sp_lua_was_long(L);
  take_asked(lg, r);
  if (lg->sums && !r->between && write_sums(lg, r, &err)) return sp_lua_raise(L, &err);
  lua_pushinteger(L, (lua_Integer)r->step);
  push_result(L, lg, r);
  return 2;
}

/* g:stop(): ends the loop early; nothing outside one */
static int steps_stop(lua_State *L) {
  sp_lua_graph *lg = sp_lua_test_graph(L, 1);
  if (!lg || !lg->g) return 0;
  return stop(L, sp_lua_check_graph(L, 1), 1);
}

/* g:cut(): no step begins any more; those that have begun still come */
static int steps_cut(lua_State *L) {
  sp_engine_cut(sp_lua_check_graph(L, 1)->e);
  return 0;
}

/* g:was_cut() -> whether the last loop ended before its last step */
static int steps_was_cut(lua_State *L) {
  lua_pushboolean(L, sp_engine_was_cut(sp_lua_check_graph(L, 1)->e));
  return 1;
}

/* g:hold(whether): from now on a signal ends neither steps nor an evaluation; the script asks for it, saves a
 * checkpoint, and stops them */
static int steps_hold(lua_State *L) {
  bool held = sp_lua_check_graph(L, 1)->held = lua_toboolean(L, 2);
  sp_lua_keeps(held);
  return 0;
}

/* g:boundary() -> the step before which the weights are now */
static int steps_boundary(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sp_engine_boundary(sp_lua_check_graph(L, 1)->e));
  return 1;
}

static int steps_step(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)sp_engine_step(sp_lua_check_graph(L, 1)->e));
  return 1;
}

static int steps_seek(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  lua_Integer step = luaL_checkinteger(L, 2);
  sp_err err;
  if (step < 0) return sp_lua_fail(L, "step %lld is below 0", (long long)step);
  if (sp_engine_seek(lg->e, (uint64_t)step, &err)) return sp_lua_raise(L, &err);
  return 0;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Numbers become means, weighted by what each is over (of a loss what counts, else samples), without NaN, which says
 * that nothing was measured; whole numbers, and what has SP_PORT_SUM, are summed. */
typedef struct total {
  char *name;
  sp_spec spec;
  bool sum_of; /* SP_PORT_SUM */
  int64_t count;
  double *sum, *weight;
  int64_t *isum;
} total;

typedef struct totals {
  sp_lua_graph *lg;
  total *t;
  size_t n;
  uint64_t samples, batches;
  lua_State *L;
  bool ends; /* by a signal */
  int tell;  /* where a function lies that is told of each batch; 0: nobody is */
} totals;

static void totals_free(totals *a) {
  for (size_t i = 0; i < a->n; i++) {
    free(a->t[i].name);
    free(a->t[i].sum);
    free(a->t[i].weight);
    free(a->t[i].isum);
  }
  free(a->t);
}

/* The k-th metric that is a figure of the step, not something of each sample; NULL: there are no more. */
static const sp_metric *figure(const sp_result *r, size_t k) {
  for (size_t i = 0; i < r->n_metrics; i++)
    if (!r->metrics[i].result && k-- == 0) return &r->metrics[i];
  return NULL;
}

static int totals_begin(totals *a, const sp_result *r, sp_err *err) {
  a->t = sp_calloc(r->n_metrics ? r->n_metrics : 1, sizeof *a->t);
  if (!a->t) return sp_nomem(err, r->n_metrics * sizeof *a->t, "evaluation");
  while (figure(r, a->n)) a->n++;
  for (size_t i = 0; i < a->n; i++) {
    total *t = &a->t[i];
    t->spec = figure(r, i)->spec;
    t->sum_of = figure(r, i)->flags & SP_PORT_SUM;
    t->count = sp_spec_count(&t->spec);
    size_t n = t->count > 0 ? (size_t)t->count : 1;
    t->name = sp_strdup(figure(r, i)->name);
    t->sum = sp_calloc(n, sizeof *t->sum);
    t->weight = sp_calloc(n, sizeof *t->weight);
    t->isum = sp_calloc(n, sizeof *t->isum);
    if (!t->name || !t->sum || !t->weight || !t->isum) return sp_nomem(err, n * sizeof *t->sum, "evaluation");
  }
  return SP_OK;
}

static void add_tensor(total *t, const sp_metric *m) {
  const void *data = m->data;
  double weight = t->sum_of ? 1 : m->weight;
  for (int64_t i = 0; i < t->count; i++) {
    double x = NAN;
    switch (t->spec.dtype) {
      case SP_U8: t->isum[i] += ((const uint8_t *)data)[i]; continue;
      case SP_I8: t->isum[i] += ((const int8_t *)data)[i]; continue;
      case SP_I32: t->isum[i] += ((const int32_t *)data)[i]; continue;
      case SP_I64: t->isum[i] = (int64_t)((uint64_t)t->isum[i] + (uint64_t)((const int64_t *)data)[i]); continue;
      case SP_F32: x = (double)((const float *)data)[i]; break;
      case SP_F64: x = ((const double *)data)[i]; break;
    }
    if (isnan(x) || weight == 0) continue;
    t->sum[i] += weight * x;
    t->weight[i] += weight;
  }
}

/* tell(batches, of how many) */
static int tell(const totals *a, uint64_t of, sp_err *err) {
  if (!a->tell) return SP_OK;
  if (!lua_checkstack(a->L, 4)) return sp_nomem(err, 64, "evaluation");
  lua_pushvalue(a->L, a->tell);
  lua_pushinteger(a->L, (lua_Integer)a->batches);
  lua_pushinteger(a->L, (lua_Integer)of);
  if (lua_pcall(a->L, 2, 0, 0) == LUA_OK) return SP_OK;
  const char *msg = lua_tostring(a->L, -1);
  sp_fail(err, SP_E_INVALID, "evaluation: %s", msg ? msg : "error");
  lua_pop(a->L, 1);
  return err->status;
}

static int each(void *arg, const sp_result *r, sp_err *err) {
  totals *a = arg;
  take_asked(a->lg, r);
  if (sp_lua_interrupted() && a->ends) return sp_fail(err, SP_E_CANCELLED, "interrupted");
  if (!a->t && totals_begin(a, r, err)) return err->status;
  if (figure(r, a->n) || (a->n && !figure(r, a->n - 1)))
    return sp_fail(err, SP_E_INTERNAL, "the metrics changed during evaluation");
  for (size_t i = 0; i < a->n; i++) add_tensor(&a->t[i], figure(r, i));
  a->samples += r->n;
  a->batches++;
  return tell(a, r->of, err);
}

static void push_total(lua_State *L, const total *t) {
  sp_spec s = t->spec;
  bool real = s.dtype == SP_F32 || s.dtype == SP_F64;
  if (real)
    for (int64_t i = 0; i < t->count; i++)
      if (!t->sum_of) t->sum[i] = t->weight[i] != 0 ? t->sum[i] / t->weight[i] : NAN; /* NAN: nothing was measured */
  s.dtype = real ? SP_F64 : SP_I64;
  sp_lua_push_tensor(L, &s, real ? (const void *)t->sum : t->isum, false);
  lua_setfield(L, -2, t->name);
}

/* g:evaluate(source, tell, ends) -> metrics | nil, "interrupted". tell: a function of batches that are done and all of
 * them; ends: a signal ends it within a batch even where the graph is held. */
static int steps_evaluate(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_node *source = sp_lua_check_node(L, 2, lg);
  totals a = {.lg = lg, .L = L, .ends = !lg->held || lua_toboolean(L, 4), .tell = lua_isfunction(L, 3) ? 3 : 0};
  sp_err err;
  enter(L, lg, 1);
  sp_lua_goes_on = !a.ends;
  int rc = sp_engine_evaluate(lg->e, source, each, &a, &err);
  sp_lua_goes_on = false;
  sp_lua_was_long(L);
  leave(lg);
  share(lg);
  if (rc) {
    totals_free(&a);
    if (rc != SP_E_CANCELLED || !sp_lua_interrupted()) return sp_lua_raise(L, &err);
    lua_pushnil(L);
    lua_pushliteral(L, "interrupted");
    return 2;
  }
  lua_createtable(L, 0, (int)a.n + 2);
  for (size_t i = 0; i < a.n; i++) push_total(L, &a.t[i]);
  totals_free(&a);
  lua_pushinteger(L, (lua_Integer)a.samples);
  lua_setfield(L, -2, "n");
  lua_pushinteger(L, (lua_Integer)a.batches);
  lua_setfield(L, -2, "batches");
  return 1;
}

const luaL_Reg sp_lua_step_functions[] = {
    {"begin", steps_begin}, {"next", steps_next},         {"stop", steps_stop},
    {"step", steps_step},   {"hold", steps_hold},         {"boundary", steps_boundary},
    {"seek", steps_seek},   {"evaluate", steps_evaluate}, {"checksums", steps_checksums},
    {"cut", steps_cut},     {"ask", steps_ask},           {"pause", steps_pause},
    {"was_cut", steps_was_cut},
    {NULL, NULL},
};
