/* SPDX-License-Identifier: MIT
 * sched_oracle.c - races of a list of operations by plain reachability. Each execution of an operation is a node; its
 * predecessors are the one before it on its stream, what the host had awaited when it submitted it, and the record that
 * a wait found. A node keeps the set of all nodes before it as bits. */
#include "sched_oracle.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum { MAX_NODES = 10000, MAX_ACCESSES = 400000, RUNS = 4 };

typedef struct access {
  int task, step, mode, node, next; /* next: of the same buffer, older; -1: none */
} access;

typedef struct world {
  const sp_ops *ops;
  const sp_sched_input *in;
  const int *slots;
  sp_err *err;
  uint64_t state;
  size_t words; /* of a set of nodes */
  uint64_t *before; /* [node] the set of nodes before it */
  int n_nodes;
  int host;          /* the last node that the host has awaited, -1: none */
  int *stream;       /* [lane] its last node */
  int *part;         /* [lane] its last node within the tick that is launched */
  int *cut;          /* [task] record within the tick that is launched, -1: none */
  int *first_event;  /* [task] the first of its ring; then of the ticks' */
  int n_events;
  int *stands_for;   /* [event] itself, or the tick's event in its place */
  int *recorded;     /* [event] node, -1: never */
  int *late;         /* [event] head of a list of waits that a thread may still have to look up */
  int *late_next;    /* [node] */
  int *first_buffer; /* [resource] */
  int *last_access;  /* [buffer] */
  access *list;
  int n_accesses;
  int depth, root, base, end, quarters;
  bool joined, whole, full;
} world;

uint32_t so_below(uint64_t *state, uint32_t n) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)((z ^ z >> 31) % n);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static uint64_t *set_of(const world *w, int node) { return w->before + (size_t)node * w->words; }

static bool comes_before(const world *w, int a, int b) {
  return a == b || (set_of(w, b)[a / 64] >> (a % 64) & 1);
}

/* Behind up to three others; -1: none. The last node again where there is no more room:
 * then nothing is known any more. */
static int node(world *w, int a, int b, int c) {
  int from[] = {a, b, c};
  if (w->n_nodes == MAX_NODES) {
    w->full = true;
    return MAX_NODES - 1;
  }
  int made = w->n_nodes++;
  uint64_t *set = set_of(w, made);
  memset(set, 0, w->words * sizeof *set);
  for (size_t k = 0; k < SP_ARRAY(from); k++) {
    if (from[k] < 0) continue;
    for (size_t i = 0; i < w->words; i++) set[i] |= set_of(w, from[k])[i];
    set[from[k] / 64] |= UINT64_C(1) << (from[k] % 64);
  }
  return made;
}

static int on_stream(world *w, int lane, int also) {
  return w->stream[lane] = node(w, w->stream[lane], w->host, also);
}

static bool on_host(const world *w, int lane) { return w->in->lanes[lane].host; }
static const sp_sched_task *task_of(const world *w, int task) { return &w->in->tasks[task]; }
static int step_of(const world *w, int task, int tick) { return tick - sp_sched_delay(w->in, task); }
static bool runs(const world *w, int task, int step) {
  const sp_sched_task *t = task_of(w, task);
  return step >= t->phase && (step - t->phase) % t->every == 0;
}
static bool of_root(const world *w, int lane) {
  return !on_host(w, lane) && w->in->lanes[lane].place == w->in->lanes[w->root].place;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static bool in_program_order(const access *a, const access *b) {
  return a->step < b->step || (a->step == b->step && a->task < b->task);
}

static int add_access(world *w, access now, int resource) {
  int *last = &w->last_access[w->first_buffer[resource] + now.step % w->slots[resource]];
  for (int i = *last; i >= 0; i = w->list[i].next) {
    const access *a = &w->list[i];
    if (!((a->mode | now.mode) & SP_WRITE) || (a->task == now.task && a->step == now.step)) continue;
    if (w->full || (in_program_order(a, &now) && comes_before(w, a->node, now.node))) continue;
    return sp_fail(w->err, SP_E_RACE, "'%s' of step %d and '%s' of step %d meet in '%s', and %s",
                   task_of(w, a->task)->name, a->step, task_of(w, now.task)->name, now.step,
                   w->in->resources[resource].name,
                   in_program_order(a, &now) ? "nothing orders them" : "the program has them the other way round");
  }
  if (now.mode & SP_WRITE) *last = -1; /* what comes behind it comes behind all of those */
  if (w->n_accesses == MAX_ACCESSES) {
    w->full = true;
    return SP_OK;
  }
  now.next = *last;
  w->list[*last = w->n_accesses++] = now;
  return SP_OK;
}

static int access_all(world *w, int task, int step, int at) {
  const sp_sched_task *t = task_of(w, task);
  int status = SP_OK;
  for (int mode = SP_READ; mode <= SP_WRITE; mode++)
    for (size_t i = 0; i < t->n_acc && !status; i++)
      if (t->acc[i].mode & mode) status = add_access(w, (access){task, step, mode, at, -1}, t->acc[i].resource);
  return status;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static int ring(int n) { return n > 0 ? n : 1; }

static int event_at(const world *w, int task, int step) {
  const sp_sched_task *t = task_of(w, task);
  return w->first_event[task] + (step - t->phase) / t->every % ring(w->ops->ring[task]);
}

/* The record that a wait of step `step` finds, -1: none; *event is the one that it looks at. */
static int found(const world *w, const sp_op *op, int step, int *event) {
  const sp_sched_task *t = task_of(w, op->from);
  int run = step - op->back;
  if (run < t->phase) return -1;
  *event = w->stands_for[event_at(w, op->from, run)];
  return w->recorded[*event];
}

/* A thread that has not looked yet would find this record instead. */
static int record(world *w, int event, int at) {
  for (int wait = w->late[event]; wait >= 0; wait = w->late_next[wait])
    if (!w->full && (w->host < 0 || !comes_before(w, wait, w->host)))
      return sp_fail(w->err, SP_E_RACE, "event %d is recorded again before a thread has looked at it", event);
  w->late[event] = -1;
  w->recorded[event] = at;
  return SP_OK;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void wait_for(world *w, const sp_op *op, int step) {
  int event = -1, at = found(w, op, step, &event), mine;
  if (at < 0) return;
  mine = on_stream(w, op->lane, at);
  if (w->in->lanes[op->lane].place == w->in->lanes[task_of(w, op->from)->lane].place) return;
  w->late_next[mine] = w->late[event];
  w->late[event] = mine;
}

static int play_op(world *w, const sp_op *op, int step) {
  int event = -1;
  switch (op->kind) {
    case SP_OP_MARK:
    case SP_OP_LAUNCH: return SP_OK;
    case SP_OP_WAIT: wait_for(w, op, step); return SP_OK;
    case SP_OP_SYNC: w->host = node(w, w->host, found(w, op, step, &event), -1); return SP_OK;
    case SP_OP_FINISH: w->host = node(w, w->host, w->stream[op->lane], -1); return SP_OK;
    case SP_OP_RECORD:
      event = event_at(w, op->task, step);
      w->stands_for[event] = event;
      return record(w, event, on_stream(w, op->lane, -1));
    default: break;
  }
  if (!on_host(w, op->lane)) return access_all(w, op->task, step, on_stream(w, op->lane, -1));
  w->host = node(w, w->host, -1, -1);
  return access_all(w, op->task, step, w->host);
}

static int play_part(world *w, const sp_op *op, int tick) {
  int step = step_of(w, op->task, tick), *last = &w->part[op->lane];
  if (!runs(w, op->task, step)) return SP_OK;
  if (op->kind == SP_OP_WAIT) {
    bool same_tick = step_of(w, op->from, tick) == step - op->back && w->cut[op->from] >= 0;
    if (same_tick) *last = node(w, *last, w->cut[op->from], -1);
  }
  if (op->kind == SP_OP_RECORD) w->cut[op->task] = *last;
  if (!sp_op_works(op->kind)) return SP_OK;
  *last = node(w, *last, -1, -1);
  return access_all(w, op->task, step, *last);
}

/* One operation of the root's stream: it begins all lanes, and ends when they have. */
static int play_launch(world *w, const sp_op *launch, int tick) {
  int status = SP_OK, begin = on_stream(w, w->root, -1), end;
  for (size_t i = 0; i < w->in->n_tasks; i++) w->cut[i] = -1;
  for (size_t l = 0; l < w->in->n_lanes; l++) w->part[l] = begin;
  for (int i = 1; i <= launch->n && !status; i++) status = play_part(w, &launch[i], tick);
  end = begin;
  for (size_t l = 0; l < w->in->n_lanes; l++)
    if (w->part[l] != begin) end = node(w, end, w->part[l], -1);
  w->stream[w->root] = end;
  return status;
}

static int record_tick(world *w, const sp_op *launch, int tick) {
  int event = w->first_event[w->in->n_tasks] + tick % ring(w->ops->tick_ring);
  for (int i = 1; i <= launch->n; i++) {
    int step = step_of(w, launch[i].task, tick);
    if (launch[i].kind == SP_OP_RECORD && runs(w, launch[i].task, step))
      w->stands_for[event_at(w, launch[i].task, step)] = event;
  }
  return record(w, event, on_stream(w, w->root, -1));
}

static void switch_to(world *w, bool whole) {
  for (int l = 0; l < (int)w->in->n_lanes && whole != w->joined; l++) {
    if (!of_root(w, l) || l == w->root) continue;
    if (whole) w->stream[w->root] = node(w, w->stream[w->root], w->stream[l], -1);
    else w->stream[l] = node(w, w->stream[l], w->stream[w->root], -1);
  }
  w->joined = whole;
}

static bool may_launch(world *w, const sp_op *launch, int tick) {
  for (int i = 1; i <= launch->n; i++) {
    int step = step_of(w, launch[i].task, tick);
    if (step < w->base || step >= w->end) return false;
  }
  return (int)so_below(&w->state, 4) < w->quarters;
}

static int play_tick(world *w, int tick) {
  const sp_op *launch = NULL;
  int status = SP_OK;
  for (size_t i = 0; i < w->ops->n && !status; i++) {
    const sp_op *op = &w->ops->op[i];
    if (op->task >= 0) {
      int step = step_of(w, op->task, tick);
      if (step >= w->base && step < w->end && runs(w, op->task, step)) status = play_op(w, op, step);
    } else if (op->kind == SP_OP_LAUNCH) {
      launch = op;
      switch_to(w, w->whole = may_launch(w, op, tick));
      if (!w->whole) continue;
      status = play_launch(w, op, tick);
      i += (size_t)op->n;
    } else if (launch && w->whole) status = record_tick(w, launch, tick);
  }
  return status;
}

static int play_steps(world *w, int n) {
  int status = SP_OK;
  w->end = w->base + n;
  for (int tick = w->base; tick < w->end + w->depth && !status && !w->full; tick++) status = play_tick(w, tick);
  for (size_t l = 0; l < w->in->n_lanes; l++)
    if (!on_host(w, (int)l)) w->host = node(w, w->host, w->stream[l], -1);
  w->base = w->end;
  return status;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int *filled(size_t n, int with) {
  int *list = sp_calloc(n + 1, sizeof *list);
  for (size_t i = 0; list && i < n; i++) list[i] = with;
  return list;
}

static void free_world(world *w) {
  int *lists[] = {w->stream, w->part, w->cut, w->first_event, w->stands_for, w->recorded, w->late, w->late_next,
                  w->first_buffer, w->last_access};
  for (size_t i = 0; i < SP_ARRAY(lists); i++) free(lists[i]);
  free(w->before);
  free(w->list);
}

static bool make_world(world *w) {
  size_t tasks = w->in->n_tasks, buffers = 0;
  w->words = (MAX_NODES + 63) / 64;
  w->before = malloc(MAX_NODES * w->words * sizeof *w->before);
  w->list = malloc(MAX_ACCESSES * sizeof *w->list);
  w->stream = filled(w->in->n_lanes, -1);
  w->part = filled(w->in->n_lanes, -1);
  w->cut = filled(tasks, -1);
  w->first_event = filled(tasks + 1, 0);
  w->first_buffer = filled(w->in->n_resources, 0);
  if (!w->first_event || !w->first_buffer) return false;
  for (size_t i = 0; i <= tasks; i++) {
    w->first_event[i] = w->n_events;
    w->n_events += ring(i < tasks ? w->ops->ring[i] : w->ops->tick_ring);
  }
  for (size_t i = 0; i < w->in->n_resources; i++) {
    w->first_buffer[i] = (int)buffers;
    buffers += (size_t)w->slots[i];
  }
  w->stands_for = filled((size_t)w->n_events, 0);
  for (int i = 0; w->stands_for && i < w->n_events; i++) w->stands_for[i] = i;
  w->recorded = filled((size_t)w->n_events, -1);
  w->late = filled((size_t)w->n_events, -1);
  w->late_next = filled(MAX_NODES, -1);
  w->last_access = filled(buffers, -1);
  return w->before && w->list && w->stream && w->part && w->cut && w->stands_for && w->recorded && w->late &&
         w->late_next && w->last_access;
}

so_verdict so_judge(const sp_ops *ops, const sp_sched_input *in, const int *slots, uint64_t seed, sp_err *err) {
  int period, span, status;
  if (sp_schedule_span(in, slots, &period, &span, err)) return SO_TOO_LARGE;
  for (int round = 0, most = 4; round < 3; round++) {
    world w = {
        .ops = ops, .in = in, .slots = slots, .err = err, .state = seed + (uint64_t)round, .root = -1, .host = -1};
    for (size_t i = 0; i < ops->n; i++)
      if (ops->op[i].kind == SP_OP_LAUNCH && ops->op[i].task < 0) w.root = ops->op[i].lane;
    for (size_t i = 0; i < in->n_tasks; i++)
      if (sp_sched_delay(in, (int)i) > w.depth) w.depth = sp_sched_delay(in, (int)i);
    w.quarters = w.root >= 0 ? most - 2 * round : 0;
    status = make_world(&w) ? SP_OK : sp_nomem(err, MAX_NODES, "the oracle");
    int whole = w.depth + span + 2 * period + 1;
    if (!status) status = play_steps(&w, whole);
    for (int k = 1; k < RUNS && !status; k++) status = play_steps(&w, 1 + (int)so_below(&w.state, (uint32_t)whole));
    free_world(&w);
    if (status) return SO_RACES;
    if (w.full) return SO_TOO_LARGE;
    if (w.root < 0) break;
  }
  return SO_FINE;
}

/* ---- changes of lists -------------------------------------------------------------------------------------------- */

bool so_copy(sp_ops *to, const sp_ops *from, const sp_sched_input *in) {
  *to = *from;
  to->cap = from->n + 8;
  to->op = sp_calloc(to->cap, sizeof *to->op);
  to->ring = sp_calloc(in->n_tasks + 1, sizeof *to->ring);
  if (to->op && to->ring) {
    memcpy(to->op, from->op, from->n * sizeof *to->op);
    memcpy(to->ring, from->ring, in->n_tasks * sizeof *to->ring);
    return true;
  }
  sp_ops_free(to);
  return false;
}

static bool waits(const sp_op *op) { return op->kind == SP_OP_WAIT || op->kind == SP_OP_SYNC; }

/* Into the body that has operation k, if one has. */
static void insert(sp_ops *o, size_t k, sp_op op) {
  size_t launch = k < o->n ? sp_ops_body(o, k) : SIZE_MAX;
  if (launch != SIZE_MAX) o->op[launch].n++;
  memmove(o->op + k + 1, o->op + k, (o->n - k) * sizeof *o->op);
  o->op[k] = op;
  o->n++;
}

static bool fixed(const sp_op *op) { return op->kind == SP_OP_LAUNCH || op->task < 0; }

static void move(sp_ops *o, size_t i, uint64_t *state) {
  sp_op op = o->op[i];
  bool near = so_below(state, 2);
  size_t k;
  if (fixed(&op)) return;
  sp_ops_remove(o, i);
  k = near ? (i + so_below(state, 9) + o->n - 4) % o->n : so_below(state, (uint32_t)o->n);
  insert(o, k, op);
}

static void swap(sp_ops *o, size_t i, size_t k) {
  sp_op op = o->op[i];
  if (fixed(&op) || fixed(&o->op[k])) return;
  o->op[i] = o->op[k];
  o->op[k] = op;
}

/* The next one of the lane of i, if it is in the same body. */
static void swap_neighbours(sp_ops *o, size_t i) {
  size_t k = i + 1;
  while (k < o->n && o->op[k].lane != o->op[i].lane) k++;
  if (k < o->n && sp_ops_body(o, i) == sp_ops_body(o, k)) swap(o, i, k);
}

void so_change(sp_ops *o, const sp_sched_input *in, uint64_t *state) {
  size_t i = so_below(state, (uint32_t)o->n), k = so_below(state, (uint32_t)o->n);
  uint32_t way = so_below(state, 8);
  if (way >= 4) /* of those that order something */
    for (size_t tries = 0; tries < o->n && !waits(&o->op[i]); tries++) i = (i + 1) % o->n;
  switch (way) {
    case 0: swap(o, i, k); break;
    case 1: swap_neighbours(o, i); break;
    case 2:
      if (o->op[i].task >= 0 && o->ring[o->op[i].task] > 0) o->ring[o->op[i].task] += so_below(state, 2) ? 1 : -1;
      break;
    case 4:
      if (waits(&o->op[i])) o->op[i].from = (int)so_below(state, (uint32_t)in->n_tasks);
      break;
    case 5:
      if (waits(&o->op[i])) o->op[i].back += so_below(state, 2) || !o->op[i].back ? 1 : -1;
      break;
    case 6:
      if (waits(&o->op[i]) || (o->op[i].kind == SP_OP_RECORD && o->op[i].task >= 0)) sp_ops_remove(o, i);
      break;
    default: move(o, i, state); break;
  }
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static bool begin(sp_ops *out, const sp_ops *from, const sp_sched_input *in) {
  *out = (sp_ops){.ring = sp_calloc(in->n_tasks + 1, sizeof *out->ring)};
  if (out->ring) memcpy(out->ring, from->ring, in->n_tasks * sizeof *out->ring);
  return out->ring;
}

int so_capture_lanes(sp_ops *out, const sp_ops *from, const sp_sched_input *in, uint64_t *state, sp_err *err) {
  int status = begin(out, from, in) ? SP_OK : sp_nomem(err, in->n_tasks, "a list");
  for (size_t i = 0; i < from->n && !status; i++) {
    const sp_op *op = &from->op[i];
    bool inside = sp_op_works(op->kind) && !in->lanes[op->lane].host;
    bool follows = out->open && out->op[out->open - 1].lane == op->lane && inside;
    if (out->open && (!follows || !so_below(state, 4))) sp_ops_close(out);
    if (!out->open && inside && so_below(state, 2)) status = sp_ops_launch(out, op->lane, op->task, err);
    if (!status) status = sp_ops_put(out, *op, err);
  }
  sp_ops_close(out);
  return status;
}

/* The host's operations come before the graph, but for those behind a wait for this very tick. */
int so_capture_tick(sp_ops *out, const sp_ops *from, const sp_sched_input *in, sp_err *err) {
  int status = begin(out, from, in) ? SP_OK : sp_nomem(err, in->n_tasks, "a list"), root = -1, ticks = 0;
  size_t behind = from->n;
  for (size_t i = 0; i < from->n; i++) {
    const sp_op *op = &from->op[i];
    if (root < 0 && !in->lanes[op->lane].host) root = op->lane;
    if (op->kind != SP_OP_SYNC) continue;
    if (sp_sched_delay(in, op->from) == sp_sched_delay(in, op->task) + op->back && i < behind) behind = i;
    int events = (from->ring[op->from] + 1) * in->tasks[op->from].every;
    if (events > ticks) ticks = events;
  }
  out->tick_ring = ticks;
  for (int part = 0; part < 3 && !status; part++) {
    if (part == 1 && root < 0) continue;
    if (part == 1) status = sp_ops_launch(out, root, -1, err);
    for (size_t i = 0; i < from->n && !status; i++) {
      bool host = in->lanes[from->op[i].lane].host;
      if (host ? part == (i >= behind ? 2 : 0) : part == 1) status = sp_ops_put(out, from->op[i], err);
    }
    sp_ops_close(out);
    if (part == 1 && ticks && !status)
      status = sp_ops_put(out, (sp_op){.kind = SP_OP_RECORD, .lane = root, .task = -1}, err);
  }
  return status;
}
