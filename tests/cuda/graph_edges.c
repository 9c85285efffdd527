/* SPDX-License-Identifier: MIT
 * graph_edges.c - the edges of captured CUDA graphs are those of the schedule, no more and no fewer.
 *
 * The device's table of calls is given to the graph with some of its calls replaced: while something is recorded, they
 * note which nodes each submission has added. When a recording ends, cudaGraphGetEdges says what follows what, and the
 * schedule says what should: a task behind those before it in its lane, and behind what its waits of the same tick
 * name. Both are compared after closure, since CUDA leaves out edges that others imply. graph_edges.lua has the graphs.
 *
 *   graph_edges [--no-mutate]      without the runs whose lists lack a wait */
#include <cuda_runtime_api.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/graph.h"
#include "lua/main.h"
#include "run/loop.h"

enum { MAX_NODES = 4096, MAX_WORKS = 512, WORDS = MAX_NODES / 64 };

typedef struct bits {
  uint64_t w[WORDS];
} bits;

/* One call of the device while it records. */
typedef struct submission {
  const void *stream;
  const sp_call *call; /* NULL: a copy */
  int64_t step;        /* of a call */
  size_t bytes;        /* of a copy */
  int work;            /* index, -1: the schedule has none for it */
} submission;

/* A task of the schedule in one tick, or of a lane's segment; before: the works that it must be behind. */
typedef struct work {
  int task;
  bits before;
} work;

static const sp_device_type *real;
static sp_device_type spy;

/* What is recorded just now. */
static struct {
  const void *root; /* NULL: nothing */
  submission sub[MAX_NODES];
  size_t n_sub, n_nodes;
  cudaGraphNode_t node[MAX_NODES];
  int of[MAX_NODES]; /* node's submission */
} rec;

/* The run. */
static struct {
  const sp_machine *m;
  int waits;        /* within a tick */
  uint64_t noticed; /* which of them it is seen to be missing, when the schedule is read without it */
  char wrong[512];
  lua_Integer graphs, nodes, edges;
} run;

static void wrong(const char *fmt, ...) SP_PRINTF(1, 2);
static void wrong(const char *fmt, ...) {
  va_list ap;
  if (*run.wrong) return; /* the first counts */
  va_start(ap, fmt);
  vsnprintf(run.wrong, sizeof run.wrong, fmt, ap);
  va_end(ap);
}

static bool has(const bits *b, size_t i) { return b->w[i / 64] >> i % 64 & 1; }
static void put(bits *b, size_t i) { b->w[i / 64] |= UINT64_C(1) << i % 64; }
static bool join(bits *to, const bits *from) {
  bool more = false;
  for (int i = 0; i < WORDS; i++) {
    more = more || from->w[i] & ~to->w[i];
    to->w[i] |= from->w[i];
  }
  return more;
}

/* ---- CUDA -------------------------------------------------------------------------------------------------------- */

static cudaGraph_t graph_of(const void *stream, const cudaGraphNode_t **last, size_t *n) {
  enum cudaStreamCaptureStatus status;
  cudaGraph_t graph = NULL;
  cudaStream_t native = real->stream_native((void *)stream);
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData *data;
  cudaError_t rc = cudaStreamGetCaptureInfo(native, &status, NULL, &graph, last, &data, n);
#else
  cudaError_t rc = cudaStreamGetCaptureInfo_v2(native, &status, NULL, &graph, last, n);
#endif
  if (rc != cudaSuccess || status != cudaStreamCaptureStatusActive) wrong("no capture to look at: error %d", (int)rc);
  return *run.wrong ? NULL : graph;
}

static cudaError_t edges_of(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *n) {
#if CUDART_VERSION >= 13000
  static cudaGraphEdgeData data[MAX_NODES * 4];
  return cudaGraphGetEdges(graph, from, to, from ? data : NULL, n);
#else
  return cudaGraphGetEdges(graph, from, to, n);
#endif
}

static size_t find(cudaGraphNode_t node) {
  size_t i = 0;
  while (i < rec.n_nodes && rec.node[i] != node) i++;
  return i;
}

/* Nodes that are there now and were not before are those of the submission. */
static void note(submission s) {
  static cudaGraphNode_t all[MAX_NODES];
  const cudaGraphNode_t *last;
  size_t n = 0;
  cudaGraph_t graph = graph_of(s.stream, &last, &n);
  if (!graph || rec.n_sub == MAX_NODES) return;
  s.work = -1;
  rec.sub[rec.n_sub++] = s;
  if (cudaGraphGetNodes(graph, NULL, &n) != cudaSuccess || n > MAX_NODES ||
      cudaGraphGetNodes(graph, all, &n) != cudaSuccess) {
    wrong("cannot read the nodes of a graph");
    return;
  }
  for (size_t i = 0; i < n; i++) {
    if (find(all[i]) < rec.n_nodes) continue;
    rec.of[rec.n_nodes] = (int)rec.n_sub - 1;
    rec.node[rec.n_nodes++] = all[i];
  }
}

/* ---- what is expected -------------------------------------------------------------------------------------------- */

static bool on_device(const sp_program *p, int lane) { return p->lanes[lane].place == &run.m->g->main; }
static const void *stream_of(int lane) { return sp_machine_stream(run.m, lane)->own; }

/* The step that a task has at a tick; false: it does not run then. */
static bool runs(const sp_program *p, int task, int64_t tick, int64_t *step) {
  *step = tick - p->sched.delay[task];
  return *step >= 0 && *step % p->tasks[task].every == p->tasks[task].phase;
}

/* The wait is for a run of this tick: that of the step, or the last one before it. */
static bool within(const sp_program *p, const sp_sched_wait *w, int64_t step, int64_t tick) {
  const sp_task *from = &p->tasks[w->task];
  int64_t s = step - w->back, ran;
  if (!on_device(p, from->lane) || s < from->phase) return false;
  ran = (s - from->phase) / from->every * from->every + from->phase;
  return ran + p->sched.delay[w->task] == tick;
}

/* Waits for the same tick at one tick or another, in the order of the schedule: the k-th, or how many. */
static int find_wait(const sp_program *p, int k, int *task, size_t *wait) {
  int n = 0;
  for (size_t i = 0; i < p->n_tasks; i++) {
    const sp_sched_item *it = &p->sched.items[i];
    for (size_t w = 0; w < it->n_waits && on_device(p, p->tasks[i].lane); w++) {
      bool any = false;
      int64_t step, first = p->sched.depth + it->waits[w].back;
      for (int64_t t = first; t < first + p->ring; t++)
        any = any || (runs(p, (int)i, t, &step) && within(p, &it->waits[w], step, t));
      if (!any) continue;
      *task = (int)i;
      *wait = w;
      if (n++ == k) return n;
    }
  }
  return n;
}

/* The tick's tasks of the device, in the order in which they are submitted; without the wait number `forget`, -1: with
 * all. */
static size_t expect_tick(const sp_program *p, int64_t tick, int forget, work *works) {
  static bits lane[64], behind[MAX_WORKS]; /* [lane] what the next of it is behind; [task] what its event is */
  size_t n = 0, unwanted_wait = 0;
  int unwanted = -1;
  if (forget >= 0) find_wait(p, forget, &unwanted, &unwanted_wait);
  memset(lane, 0, sizeof lane);
  for (size_t i = 0; i < p->n_tasks; i++) {
    int task = p->sched.order[i], of = p->tasks[task].lane;
    const sp_sched_item *it = &p->sched.items[task];
    int64_t step;
    if (!on_device(p, of) || !runs(p, task, tick, &step)) continue;
    for (size_t w = 0; w < it->n_waits; w++)
      if (within(p, &it->waits[w], step, tick) && !(task == unwanted && w == unwanted_wait))
        join(&lane[of], &behind[it->waits[w].task]);
    works[n] = (work){task, lane[of]};
    put(&lane[of], n++);
    behind[task] = lane[of];
  }
  return n;
}

/* A segment's: one behind the other. */
static size_t expect_lane(const sp_op *launch, work *works) {
  bits before = {0};
  for (int i = 0; i < launch->n; i++) {
    works[i] = (work){launch[i + 1].task, before};
    put(&before, (size_t)i);
  }
  return (size_t)launch->n;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static bool is_of(const sp_task *t, const submission *s, size_t copy) {
  if (t->kind != SP_TASK_COPY) return s->call && s->call->task == t;
  return !s->call && copy < t->n_copies && s->bytes == t->copies[copy].bytes;
}

/* Each stream's submissions are its works in their order. */
static bool match(const sp_program *p, const work *works, size_t n) {
  size_t next = 0, used = 0;
  for (size_t i = 0; i < rec.n_sub; i++) rec.sub[i].work = -1;
  for (size_t w = 0; w < n; w++) {
    const sp_task *t = &p->tasks[works[w].task];
    size_t wanted = t->kind == SP_TASK_COPY ? t->n_copies : 1;
    for (size_t c = 0; c < wanted; c++) {
      for (next = 0; next < rec.n_sub; next++)
        if (rec.sub[next].work < 0 && rec.sub[next].stream == stream_of(t->lane)) break;
      if (next == rec.n_sub || !is_of(t, &rec.sub[next], c)) return false;
      rec.sub[next].work = (int)w;
      used++;
    }
  }
  return used == rec.n_sub;
}

static const char *name_of(const work *works, size_t node) {
  return run.m->p->tasks[works[rec.sub[rec.of[node]].work].task].name;
}

/* before[i]: the nodes that node i is behind. */
static bool close_over(cudaGraph_t graph, bits *before) {
  static cudaGraphNode_t from[MAX_NODES * 4], to[MAX_NODES * 4];
  size_t n = 0;
  bool more = true;
  cudaError_t rc = edges_of(graph, NULL, NULL, &n);
  if (!rc && n && n <= SP_ARRAY(from)) rc = edges_of(graph, from, to, &n); /* of none it reads none */
  if (rc || n > SP_ARRAY(from)) {
    wrong("cannot read the %zu edges of a graph: error %d", n, (int)rc);
    return false;
  }
  run.edges += (lua_Integer)n;
  memset(before, 0, rec.n_nodes * sizeof *before);
  while (more) {
    more = false;
    for (size_t i = 0; i < n; i++) {
      size_t a = find(from[i]), b = find(to[i]);
      bits all = before[a];
      put(&all, a);
      more = join(&before[b], &all) || more;
    }
  }
  return true;
}

/* The first pair of nodes about which graph and works differ; false: there is none. What goes on within a call is the
 * stage's own affair. */
static bool find_difference(const bits *before, const work *works, size_t *first, size_t *second) {
  for (size_t b = 0; b < rec.n_nodes; b++)
    for (size_t a = 0; a < rec.n_nodes; a++) {
      int of_a = rec.sub[rec.of[a]].work, of_b = rec.sub[rec.of[b]].work;
      if (of_a == of_b || has(&works[of_b].before, (size_t)of_a) == has(&before[b], a)) continue;
      *first = a;
      *second = b;
      return true;
    }
  return false;
}

static void compare(const bits *before, const work *works) {
  size_t a, b;
  if (!find_difference(before, works, &a, &b)) return;
  wrong("%s behind %s: %s", name_of(works, b), name_of(works, a),
        has(&before[b], a) ? "the graph says so, the schedule does not" : "the schedule says so, the graph does not");
}

/* All streams end in the root's: its next operation would be behind everything. */
static void check_end(const bits *before, const cudaGraphNode_t *last, size_t n) {
  bits all = {0};
  for (size_t i = 0; i < n; i++) {
    join(&all, &before[find(last[i])]);
    put(&all, find(last[i]));
  }
  for (size_t i = 0; i < rec.n_nodes; i++)
    if (!has(&all, i)) wrong("a node is not joined at the end of the graph");
}

/* ---- while something is recorded --------------------------------------------------------------------------------- */

static int64_t recorded_tick(const sp_program *p) {
  for (size_t i = 0; i < rec.n_sub; i++)
    if (rec.sub[i].call) return rec.sub[i].step + p->sched.delay[rec.sub[i].call->task->index];
  return -1;
}

/* The works of the graph that was recorded; false: it is none of the list's. */
static bool expected(work *works) {
  const sp_machine *m = run.m;
  if (m->launch != SIZE_MAX) return match(m->p, works, expect_tick(m->p, recorded_tick(m->p), -1, works));
  for (size_t i = 0; i < m->ops.n; i++) {
    const sp_op *op = &m->ops.op[i];
    if (op->kind != SP_OP_LAUNCH || stream_of(op->lane) != rec.root) continue;
    if (match(m->p, works, expect_lane(op, works))) return true;
  }
  return false;
}

/* Is the comparison as strict as it says? A schedule that lacks a wait must differ from the graph. */
static void forget_each(const bits *before) {
  static work works[MAX_WORKS];
  size_t a, b;
  for (int k = 0; run.m->launch != SIZE_MAX && k < run.waits; k++) {
    expect_tick(run.m->p, recorded_tick(run.m->p), k, works);
    if (find_difference(before, works, &a, &b)) run.noticed |= UINT64_C(1) << k;
  }
}

static void look(const void *root) {
  static bits before[MAX_NODES];
  static work works[MAX_WORKS];
  const cudaGraphNode_t *last = NULL;
  size_t n = 0;
  cudaGraph_t graph = graph_of(root, &last, &n);
  if (!graph) return;
  run.graphs++;
  run.nodes += (lua_Integer)rec.n_nodes;
  if (!expected(works)) {
    wrong("a graph of %zu submissions is not what the list has", rec.n_sub);
    return;
  }
  static cudaGraphNode_t ends[MAX_NODES]; /* the next call may overwrite what it points to */
  memcpy(ends, last, n * sizeof *ends);
  if (!close_over(graph, before)) return;
  compare(before, works);
  check_end(before, ends, n);
  forget_each(before);
}

static int spy_begin(sp_ctx *ctx, void *stream) {
  rec.root = stream;
  rec.n_sub = rec.n_nodes = 0;
  return real->capture_begin(ctx, stream);
}

static int spy_end(sp_ctx *ctx, void *stream, void **graph) {
  if (!*run.wrong) look(stream);
  rec.root = NULL;
  return real->capture_end(ctx, stream, graph);
}

static int spy_submit(sp_ctx *ctx, void *stream, sp_op_fn fn, void *arg) {
  int st = real->stream_submit(ctx, stream, fn, arg);
  const sp_call *call = arg;
  if (rec.root) note((submission){.stream = stream, .call = call, .step = (int64_t)call->step});
  return st;
}

static int spy_copy(sp_ctx *ctx, void *stream, void *dst, const void *src, size_t bytes) {
  int st = real->stream_copy(ctx, stream, dst, src, bytes);
  if (rec.root) note((submission){.stream = stream, .bytes = bytes});
  return st;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* The wait is in the list no more when the graphs are recorded. */
static bool drop_wait(sp_machine *m, int k) {
  int task = -1;
  size_t w = 0;
  find_wait(m->p, k, &task, &w);
  for (size_t i = 0; i < m->ops.n && task >= 0; i++) {
    sp_op *op = &m->ops.op[i];
    const sp_sched_wait *gone = &m->p->sched.items[task].waits[w];
    if (op->kind != SP_OP_WAIT || op->task != task || op->from != gone->task || op->back != gone->back) continue;
    op->kind = SP_OP_NONE;
    return true;
  }
  return false;
}

/* As the engine makes them, but with a list that can be changed. */
static int make(sp_graph *g, sp_program **p, sp_pool **pool, sp_machine **m, sp_err *err) {
  int st = sp_graph_complete(g, err);
  for (size_t i = 0; i < g->n_nodes && !st; i++) st = sp_weights_storage(&g->nodes[i]->params, err);
  if (!st) st = sp_program_new(p, g, NULL, g->strategy, err);
  if (!st) st = sp_pool_new(pool, g->main.type, g->main.dev, (size_t)1 << 30, "--pinned", err);
  if (!st) st = sp_machine_new(m, *p, *pool, err);
  return st;
}

/* How many graphs the list is recorded into: a lane of every n-th step has that part of the phases. */
static lua_Integer all_graphs(const sp_machine *m) {
  lua_Integer n = 0;
  for (size_t i = 0; i < m->ops.n; i++)
    if (m->ops.op[i].kind == SP_OP_LAUNCH)
      n += m->p->ring / (m->ops.op[i].task < 0 ? 1 : m->p->tasks[m->ops.op[i].task].every);
  return n;
}

static int play(sp_machine *m, int steps, sp_err *err) {
  sp_loop loop;
  const sp_result *r = NULL;
  int st = sp_store_init(&m->g->store, err);
  if (!st) st = sp_machine_build(m, NULL, err);
  if (!st) st = sp_store_keep_statistics(&m->g->store, err);
  if (st) return st;
  sp_loop_init(&loop, m);
  st = sp_loop_begin(&loop, 0, (uint64_t)steps, err);
  while (!st && !(st = sp_loop_next(&loop, &r, err)) && r) {}
  return st;
}

/* check(graph, drop) -> words or nil, graphs, nodes, edges, how many graphs there are to record, waits within a tick,
 * of how many of these the graphs differ from the schedule without them. drop: the wait that is taken out of the list;
 * -1: none. */
static int check(lua_State *L) {
  sp_graph *g = sp_lua_check_graph(L, 1)->g;
  int drop = (int)luaL_checkinteger(L, 2), task;
  size_t wait;
  sp_program *p = NULL;
  sp_pool *pool = NULL;
  sp_machine *m = NULL;
  sp_err err = {0};
  real = g->main.type;
  spy = *real;
  spy.capture_begin = spy_begin;
  spy.capture_end = spy_end;
  spy.stream_submit = spy_submit;
  spy.stream_copy = spy_copy;
  memset(&run, 0, sizeof run);
  int st = make(g, &p, &pool, &m, &err);
  lua_Integer all = st ? 0 : all_graphs(m);
  run.m = m;
  run.waits = st ? 0 : find_wait(p, -1, &task, &wait);
  if (!st && run.waits > 64) st = sp_fail(&err, SP_E_RANGE, "%d waits within a tick, more than 64", run.waits);
  if (!st && drop >= 0 && !drop_wait(m, drop)) st = sp_fail(&err, SP_E_NOTFOUND, "wait %d is not in the list", drop);
  g->main.type = &spy;
  if (!st) st = play(m, 2 * p->sched.depth + (drop < 0 ? 2 * p->ring : 4), &err);
  sp_machine_free(m);
  g->main.type = real;
  sp_program_free(p);
  sp_pool_free(pool);
  if (st) return sp_lua_raise(L, &err);
  lua_pushstring(L, *run.wrong ? run.wrong : NULL);
  const lua_Integer numbers[] = {run.graphs, run.nodes, run.edges, all, run.waits, __builtin_popcountll(run.noticed)};
  for (size_t i = 0; i < SP_ARRAY(numbers); i++) lua_pushinteger(L, numbers[i]);
  return 1 + (int)SP_ARRAY(numbers);
}

static int skip(const char *why) {
  printf("skipped: %s\n", why);
  return 77;
}

int main(int argc, char **argv) {
  sp_env *env;
  sp_lua *lua;
  sp_err err = {0};
  sp_ctx_holder h;
  int n = 0, code = 1;
  const sp_device_type *cuda;
  if (sp_env_new(&env, &(sp_env_opts){.threads = 2}, &err)) return skip(err.msg);
  if (sp_registry_device(env->reg, "cuda", &cuda, &err) || cuda->count(sp_ctx_for(&h, "cuda", &err), &n) || !n) {
    code = skip(err.msg);
  } else {
    free(env->script_dir);
    env->script_dir = sp_strdup(SP_TEST_SRCDIR "/scripts");
    if (env->script_dir && !sp_lua_new(&lua, env, false, &err)) {
      lua_pushcfunction(lua->L, check);
      lua_setglobal(lua->L, "check");
      code = sp_lua_run(lua, SP_TEST_SRCDIR "/tests/cuda/graph_edges.lua", argc - 1, argv + 1);
      sp_lua_free(lua);
    } else fprintf(stderr, "graph_edges: %s\n", err.msg);
  }
  sp_env_free(env);
  return code;
}
