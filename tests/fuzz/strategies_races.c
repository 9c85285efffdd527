/* SPDX-License-Identifier: MIT
 * strategies_races.c - a list of operations as a script would submit it by hand, checked as --check-races checks that:
 * no delays, slots or proof are known here, only records, waits and accesses as they are made, one after another. */
#include "strategies_races.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "hand/races.h"

typedef struct play {
  const sp_ops *ops;
  const sp_sched_input *in;
  sp_races *r;
  sp_err *err;
  int *thread, *part; /* [lane] its stream; its share of a launched tick */
  int *buffer;        /* [resource] first of its slots */
  int *event;         /* [task] first of its ring; then of the ticks' */
  int *look;          /* [event] a buffer: what a thread that waits late looks at */
  int *at;            /* [event] the one that stands in its place */
  int *cut;           /* [task] event within a launched tick */
  bool *recorded;     /* [event] */
  bool *is_cut;       /* [task] */
  const int *slots;
  int joint, n_events, depth, root, base, end, quarters;
  bool joined, whole;
} play;

static bool host(const play *p, int lane) { return p->in->lanes[lane].host; }
static const sp_sched_task *task(const play *p, int i) { return &p->in->tasks[i]; }
static bool runs(const sp_sched_task *t, int step) { return step >= t->phase && (step - t->phase) % t->every == 0; }
static int ring(const play *p, int i) { return p->ops->ring[i] > 0 ? p->ops->ring[i] : 1; }
static bool of_root(const play *p, int lane) {
  return !host(p, lane) && p->in->lanes[lane].place == p->in->lanes[p->root].place;
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */

static int more(play *p, int **list, size_t n, int st) {
  *list = sp_calloc(n + 1, sizeof **list);
  return st ? st : *list ? SP_OK : sp_nomem(p->err, n * sizeof **list, "a play");
}

static int make_threads(play *p) {
  int st = SP_OK;
  for (size_t l = 0; l < p->in->n_lanes && !st; l++) {
    if (host(p, (int)l)) continue;
    st = sp_races_thread(p->r, p->in->lanes[l].name, &p->thread[l], p->err);
    if (!st) st = sp_races_thread(p->r, p->in->lanes[l].name, &p->part[l], p->err);
  }
  return st;
}

static int make_events(play *p) {
  int st = sp_races_event(p->r, &p->joint, p->err), ignored;
  for (int i = 0; i < p->n_events && !st; i++) {
    p->at[i] = i;
    if (!(st = sp_races_event(p->r, &ignored, p->err))) /* numbered from joint + 1 */
      st = sp_races_buffer(p->r, "an event", 1, "", &p->look[i], p->err);
  }
  for (size_t i = 0; i < p->in->n_tasks && !st; i++) st = sp_races_event(p->r, &p->cut[i], p->err);
  return st;
}

static int make(play *p) {
  size_t n = p->in->n_tasks;
  int st = sp_races_new(&p->r, true, p->err), buffer;
  st = more(p, &p->thread, p->in->n_lanes, st);
  st = more(p, &p->part, p->in->n_lanes, st);
  st = more(p, &p->buffer, p->in->n_resources, st);
  st = more(p, &p->event, n + 1, st);
  st = more(p, &p->cut, n, st);
  p->is_cut = sp_calloc(n + 1, sizeof *p->is_cut);
  for (size_t i = 0; i <= n && !st; i++) {
    p->event[i] = p->n_events;
    p->n_events += i < n ? ring(p, (int)i) : p->ops->tick_ring > 0 ? p->ops->tick_ring : 1;
  }
  st = more(p, &p->look, (size_t)p->n_events, st);
  st = more(p, &p->at, (size_t)p->n_events, st);
  p->recorded = sp_calloc((size_t)p->n_events + 1, sizeof *p->recorded);
  if (!st && (!p->is_cut || !p->recorded)) st = sp_nomem(p->err, n, "a play");
  if (!st) st = make_threads(p);
  if (!st) st = make_events(p);
  for (size_t i = 0; i < p->in->n_resources && !st; i++)
    for (int s = 0; s < p->slots[i] && !st; s++) {
      st = sp_races_buffer(p->r, p->in->resources[i].name, 1, "", &buffer, p->err);
      if (s == 0) p->buffer[i] = buffer;
    }
  for (size_t i = 0; i < n; i++)
    if (sp_sched_delay(p->in, (int)i) > p->depth) p->depth = sp_sched_delay(p->in, (int)i);
  p->root = -1;
  for (size_t i = 0; i < p->ops->n; i++)
    if (p->ops->op[i].kind == SP_OP_LAUNCH && p->ops->op[i].task < 0) p->root = p->ops->op[i].lane;
  return st;
}

static void free_play(play *p) {
  int *lists[] = {p->thread, p->part, p->buffer, p->event, p->look, p->at, p->cut};
  for (size_t i = 0; i < SP_ARRAY(lists); i++) free(lists[i]);
  free(p->recorded);
  free(p->is_cut);
  sp_races_free(p->r);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static int id(const play *p, int event) { return p->joint + 1 + event; }

static int touch(play *p, int thread, int buffer, int mode, const char *who) {
  uint64_t ignored;
  return sp_races_access(p->r, thread, &(sp_race_touch){.buffer = buffer, .mode = mode, .bytes = 1}, 1, who, "",
                         &ignored, p->err);
}

static int access_all(play *p, const sp_op *op, int step, int thread) {
  const sp_sched_task *t = task(p, op->task);
  sp_race_touch list[256];
  uint64_t ignored;
  size_t n = 0;
  for (size_t i = 0; i < t->n_acc; i++) {
    int res = t->acc[i].resource;
    if (n == SP_ARRAY(list)) return sp_fail(p->err, SP_E_INTERNAL, "a task with more than %zu accesses", n);
    list[n++] = (sp_race_touch){.buffer = p->buffer[res] + step % p->slots[res], .mode = t->acc[i].mode, .bytes = 1};
  }
  return sp_races_access(p->r, thread, list, n, t->name, "", &ignored, p->err);
}

static int record(play *p, int event, int thread) {
  int st = touch(p, SP_RACES_HOST, p->look[event], SP_RACE_WRITE, "a record");
  p->recorded[event] = true;
  return st ? st : sp_races_record(p->r, id(p, event), thread, p->err);
}

static int own_event(const play *p, int of, int step) {
  const sp_sched_task *t = task(p, of);
  return p->event[of] + (step - t->phase) / t->every % ring(p, of);
}

/* The event of the latest run of `from` at step - back or before; -1: it lies before the first step, or was never
 * recorded. */
static int awaited(const play *p, const sp_op *op, int step) {
  const sp_sched_task *t = task(p, op->from);
  int s = step - op->back;
  if (s < t->phase) return -1;
  int event = p->at[own_event(p, op->from, s)];
  return p->recorded[event] ? event : -1;
}

/* A stream of another place has a thread that looks at the event when it gets there. */
static int wait(play *p, const sp_op *op, int step) {
  int event = awaited(p, op, step), st = SP_OK;
  if (event < 0) return SP_OK;
  if (p->in->lanes[op->lane].place != p->in->lanes[task(p, op->from)->lane].place)
    st = touch(p, p->thread[op->lane], p->look[event], SP_RACE_READ, "a late wait");
  return st ? st : sp_races_wait(p->r, p->thread[op->lane], id(p, event), p->err);
}

static int sync(play *p, const sp_op *op, int step) {
  int event = awaited(p, op, step);
  return event < 0 ? SP_OK : sp_races_wait(p->r, SP_RACES_HOST, id(p, event), p->err);
}

static int play_op(play *p, const sp_op *op, int step) {
  switch (op->kind) {
    case SP_OP_WAIT: return wait(p, op, step);
    case SP_OP_SYNC: return sync(p, op, step);
    case SP_OP_RECORD: {
      int event = own_event(p, op->task, step);
      p->at[event] = event;
      return record(p, event, p->thread[op->lane]);
    }
    case SP_OP_FINISH: return sp_races_sync(p->r, p->thread[op->lane], p->err);
    case SP_OP_MARK:
    case SP_OP_LAUNCH: return SP_OK;
    default: return access_all(p, op, step, host(p, op->lane) ? SP_RACES_HOST : p->thread[op->lane]);
  }
}

/* ---- launched ticks, as a capture over several streams makes them ------------------------------------------------ */

static int order(play *p, int before, int after) {
  int st = sp_races_record(p->r, p->joint, before, p->err);
  return st ? st : sp_races_wait(p->r, after, p->joint, p->err);
}

static int switch_to(play *p, bool whole) {
  int st = SP_OK;
  for (int l = 0; l < (int)p->in->n_lanes && whole != p->joined && !st; l++)
    if (of_root(p, l))
      st = whole ? order(p, p->thread[l], p->thread[p->root]) : order(p, p->thread[p->root], p->thread[l]);
  p->joined = whole;
  return st;
}

static int play_part(play *p, const sp_op *op, int tick) {
  int step = tick - sp_sched_delay(p->in, op->task), part = p->part[op->lane];
  if (!runs(task(p, op->task), step)) return SP_OK;
  if (op->kind == SP_OP_WAIT) {
    int ran = tick - sp_sched_delay(p->in, op->from);
    bool edge = ran == step - op->back && runs(task(p, op->from), ran) && p->is_cut[op->from];
    return edge ? sp_races_wait(p->r, part, p->cut[op->from], p->err) : SP_OK;
  }
  if (op->kind == SP_OP_RECORD) {
    p->is_cut[op->task] = true;
    return sp_races_record(p->r, p->cut[op->task], part, p->err);
  }
  bool works = op->kind == SP_OP_CALL || op->kind == SP_OP_COPY || op->kind == SP_OP_HASH;
  return works ? access_all(p, op, step, part) : SP_OK;
}

static int play_launch(play *p, const sp_op *launch, int tick) {
  int st = SP_OK;
  memset(p->is_cut, 0, p->in->n_tasks * sizeof *p->is_cut);
  for (int l = 0; l < (int)p->in->n_lanes && !st; l++)
    if (of_root(p, l)) st = order(p, p->thread[p->root], p->part[l]);
  for (int i = 1; i <= launch->n && !st; i++) st = play_part(p, &launch[i], tick);
  for (int l = 0; l < (int)p->in->n_lanes && !st; l++)
    if (of_root(p, l)) st = order(p, p->part[l], p->thread[p->root]);
  return st;
}

static int record_tick(play *p, const sp_op *launch, int tick) {
  int event = p->event[p->in->n_tasks] + tick % (p->ops->tick_ring > 0 ? p->ops->tick_ring : 1);
  for (int i = 1; i <= launch->n; i++) {
    int step = tick - sp_sched_delay(p->in, launch[i].task);
    if (launch[i].kind == SP_OP_RECORD && runs(task(p, launch[i].task), step))
      p->at[own_event(p, launch[i].task, step)] = event;
  }
  return record(p, event, p->thread[p->root]);
}

static bool may_launch(const play *p, const sp_op *launch, int tick) {
  for (int i = 1; i <= launch->n; i++) {
    int step = tick - sp_sched_delay(p->in, launch[i].task);
    if (step < p->base || step >= p->end) return false;
  }
  return (int)((uint32_t)tick * 2654435761u >> 16 & 3) < p->quarters;
}

/* ---- the play ---------------------------------------------------------------------------------------------------- */

static int play_tick(play *p, int tick) {
  const sp_op *launch = NULL;
  int st = SP_OK;
  for (size_t i = 0; i < p->ops->n && !st; i++) {
    const sp_op *op = &p->ops->op[i];
    if (op->task >= 0) {
      int step = tick - sp_sched_delay(p->in, op->task);
      if (step >= p->base && step < p->end && runs(task(p, op->task), step)) st = play_op(p, op, step);
    } else if (op->kind == SP_OP_LAUNCH) {
      launch = op;
      p->whole = may_launch(p, op, tick);
      st = switch_to(p, p->whole);
      if (p->whole && !st) st = play_launch(p, op, tick);
      if (p->whole) i += (size_t)op->n;
    } else if (launch && p->whole) st = record_tick(p, launch, tick);
  }
  return st;
}

/* So many steps, then a drain: the host waits for all. */
static int play_steps(play *p, int n) {
  int st = SP_OK;
  p->end = p->base + n;
  for (int tick = p->base; tick < p->end + p->depth && !st; tick++) st = play_tick(p, tick);
  for (size_t l = 0; l < p->in->n_lanes && !st; l++) {
    if (host(p, (int)l)) continue;
    st = sp_races_sync(p->r, p->thread[l], p->err);
    if (!st) st = sp_races_sync(p->r, p->part[l], p->err);
  }
  p->base = p->end;
  return st;
}

enum { MOST = 16 };

int sf_races(const sp_ops *ops, const sp_sched_input *in, const int *slots, sp_err *err) {
  play p = {.ops = ops, .in = in, .slots = slots, .err = err};
  int period, span, st = sp_schedule_span(in, slots, &period, &span, err);
  if (st) return st;
  st = make(&p);
  for (p.quarters = p.root >= 0 ? 4 : 0; p.quarters >= 0 && !st; p.quarters -= 2) {
    st = play_steps(&p, p.depth + span + 2 * period + 1);
    /* What the host learnt in a newer step is not there where the loop ended before it. */
    for (int k = 0; k <= period && k < MOST && !st; k++) st = play_steps(&p, p.depth + span + 1 + k);
  }
  free_play(&p);
  return st;
}
