/* SPDX-License-Identifier: MIT
 * prove.c - plays a list of operations with vector clocks and finds any two conflicting accesses that it leaves
 * unordered.
 *
 * Shares nothing with the derivation but the input's bounds: it looks at accesses, slots and the list alone, and does
 * what the list says. A clock has a component for each lane (and one more for what of the lane lies in a launched
 * tick): the index of the last access there that is known to be complete. Streams have clocks, and events, which take
 * their stream's when they are recorded; the host has what it learnt. A call's clock is the join of its stream's and of
 * what the host knew.
 *
 * Why one play is enough. Take two conflicting runs X(r) and Y(s), X first. Clocks flow along lanes and waits from
 * older steps to the same or newer ones; only the host, with tasks of different delays, could carry knowledge from step
 * h to an older step. That knowledge is not counted (it is, from step h on), because a drain to the boundary before h
 * takes it away. So every path counted runs within the steps r..s, and is there however close before r a run began or
 * refilled and however close after s it drains. It depends on s only through which tasks run at which steps, that is on
 * s modulo the period of the `every`s; slot numbers do not matter, only that X is the last run on Y's slot, which lies
 * at most `span` steps back. So all cases are met when span + period steps are played. Fill, two periods, drain and
 * refill are played all the same: they check rings, and this argument.
 *
 * Launched ticks carry what the newest step knew to older steps of the next tick, along the root's stream. A drain
 * makes ticks that are not launched, all behind what was; the ticks before it are the same with and without it. So here
 * the drain itself is played, ending at each phase of the period, and mixtures of both kinds of ticks. A switch from
 * one kind to the other orders all lanes of the place, and so hides waits that are missing: ticks of which none is
 * launched are played too, as in a run of fewer steps than the depth. */
#include "schedule/ops.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

typedef struct touch {
  int task, step;
  int index, comp; /* which of its component's accesses, from 1; 0: nobody */
} touch;

typedef struct play {
  const sp_ops *ops;
  const sp_sched_input *in;
  const int *slots;
  sp_err *err;
  size_t lanes, comps, tasks, window, events;
  int depth, root; /* root -1: no tick is launched */
  int base, end;   /* steps before base have been joined by a drain */
  int quarters;    /* of the ticks that may be launched so many are, drawn: 4 all, 0 none */
  bool joined;     /* the last tick was launched: all of the place is behind the root's stream */
  bool whole;      /* this one is */
  int *stream;     /* [lane][comp] */
  int *part;       /* [lane][comp]: of a lane within the launched tick */
  int *cut;        /* [task][comp]: records within the launched tick */
  int *known;      /* [step % window][comp]: by the host, from steps up to this one */
  int *count;      /* [comp] accesses so far */
  int *latest;     /* [task] step of its last run, -1: none */
  int *now;        /* [comp] clock of the call that is played */
  size_t *event;   /* [task] index of its first event; then of the ticks' */
  int *clock;      /* [event][comp] */
  int *run;        /* [event] step whose record it holds, -1: never recorded */
  size_t *holds;   /* [event] the event in its place: itself, or a tick's */
  int *again;      /* [event] how often it was recorded */
  int *held;       /* [event] value of again[holds] then */
  int *late;       /* [event][lane]: access before which that lane's thread looks at it; NULL: one place */
  size_t *buffer;  /* [resource] index of slot 0 */
  touch *writer;   /* [buffer] */
  /* [buffer][comp] since that write: the reader that is last in the program, which the next writer must not come
   * before, and the one that was submitted last, which it must come behind.
   * A lane may run two readers in another order than the program. */
  touch *reader, *latest_reader;
  int n_launch; /* LAUNCHes of the list met by check_form */
} play;

static void free_play(play *p) {
  free(p->stream);
  free(p->part);
  free(p->cut);
  free(p->known);
  free(p->count);
  free(p->latest);
  free(p->now);
  free(p->event);
  free(p->clock);
  free(p->run);
  free(p->holds);
  free(p->again);
  free(p->held);
  free(p->late);
  free(p->buffer);
  free(p->writer);
  free(p->reader);
  free(p->latest_reader);
}

static const char *name(const play *p, int task) { return p->in->tasks[task].name; }
static const char *lane_name(const play *p, int task) { return p->in->lanes[p->in->tasks[task].lane].name; }
static int delay_of(const play *p, int task) { return sp_sched_delay(p->in, task); }
static int shown_delay(const play *p, int task) { return delay_of(p, task) - p->in->shift; }
static bool runs(const sp_sched_task *t, int step) { return step >= t->phase && (step - t->phase) % t->every == 0; }

/* ---- the form of the list ---------------------------------------------------------------------------------------- */

static bool index_ok(int i, size_t n) { return i >= 0 && (size_t)i < n; }

static bool waits(const sp_op *op) { return op->kind == SP_OP_WAIT || op->kind == SP_OP_SYNC; }

static bool is_host(const play *p, const sp_op *op) { return p->in->lanes[op->lane].host; }

/* What is wrong with an operation wherever it stands, or NULL. Indices come first: the rest reads what they name. */
static const char *fault_of(const play *p, const sp_op *op) {
  bool tick = op->kind == SP_OP_LAUNCH || op->kind == SP_OP_RECORD;
  if (op->kind < 0 || op->kind >= SP_OP_KINDS || op->kind == SP_OP_NONE) return "is of no kind";
  if (!index_ok(op->lane, p->lanes)) return "names a lane that is not there";
  if (!index_ok(op->task, p->tasks) && !(tick && op->task == -1)) return "belongs to no task";
  if (op->task >= 0 && op->lane != p->in->tasks[op->task].lane) return "is on another lane than its task";
  if (waits(op) && (!index_ok(op->from, p->tasks) || op->back < 0 || op->back > 1 << 16)) return "waits for nothing";
  if (waits(op) && (op->kind == SP_OP_SYNC) != is_host(p, op)) return "is on the wrong side";
  if (tick && is_host(p, op)) return "is on the host's lane";
  if (op->kind == SP_OP_MARK && op->back != 0 && op->back != 1) return "is neither before its task nor behind it";
  if (op->kind == SP_OP_MARK && !index_ok(op->from, SP_MARK_READERS)) return "is read by nobody";
  if (op->kind < SP_OP_WAIT && op->kind != p->in->tasks[op->task].op) return "is not what its task does";
  return NULL;
}

/* What keeps an operation out of the body of `launch`, or NULL. */
static const char *fault_in_body(const play *p, const sp_op *op, const sp_op *launch) {
  if (op->kind == SP_OP_LAUNCH) return "is within another";
  if (op->task < 0) return "belongs to no task, so it cannot be part of a graph";
  if (op->kind == SP_OP_FINISH) return "cannot be part of a graph";
  if (launch->task >= 0)
    return op->lane != launch->lane || !(sp_op_works(op->kind) || op->kind == SP_OP_MARK)
               ? "cannot be part of a lane's graph"
               : NULL;
  bool there = !is_host(p, op) && p->in->lanes[op->lane].place == p->in->lanes[launch->lane].place;
  return there ? NULL : "cannot be part of a tick's graph";
}

/* What is wrong with a LAUNCH, or with a tick's RECORD, where it stands; or NULL. */
static const char *fault_of_tick(const play *p, const sp_op *op, bool recorded, size_t behind) {
  if (op->kind == SP_OP_LAUNCH) {
    if (op->from != p->n_launch || op->from >= p->ops->n_launch) return "has a number out of turn";
    if (op->n < 1 || (size_t)op->n > behind) return "has no body";
    return op->task < 0 && p->root >= 0 ? "launches a tick a second time" : NULL;
  }
  if (p->root < 0 || op->lane != p->root) return "records a tick that was not launched";
  return recorded ? "records a tick a second time" : NULL;
}

static int check_op(const play *p, size_t i, const sp_op *launch, bool recorded) {
  const sp_op *op = &p->ops->op[i];
  const char *fault = fault_of(p, op);
  if (!fault && launch) fault = fault_in_body(p, op, launch);
  if (!fault && (op->kind == SP_OP_LAUNCH || op->task < 0)) fault = fault_of_tick(p, op, recorded, p->ops->n - i - 1);
  if (!fault && op->kind == SP_OP_RECORD && (op->task >= 0 ? p->ops->ring[op->task] : p->ops->tick_ring) < 1)
    return sp_fail(p->err, SP_E_RACE, "'%s' records an event, but has 0 events: it needs 1",
                   op->task >= 0 ? name(p, op->task) : "a tick");
  if (!fault) return SP_OK;
  return sp_fail(p->err, SP_E_INVALID, "schedule: operation %zu of %zu, %s (lane %d, task %d), %s", i, p->ops->n,
                 sp_op_name(op->kind), op->lane, op->task, fault);
}

static int check_form(play *p) {
  const sp_op *launch = NULL;
  size_t left = 0;
  bool recorded = false;
  p->root = -1;
  for (size_t i = 0; i < p->ops->n; i++) {
    const sp_op *op = &p->ops->op[i];
    int status = check_op(p, i, left ? launch : NULL, recorded);
    if (status) return status;
    recorded = recorded || (op->kind == SP_OP_RECORD && op->task < 0);
    if (left) left--;
    if (op->kind != SP_OP_LAUNCH) continue;
    launch = op;
    left = (size_t)op->n;
    p->n_launch++;
    if (op->task < 0) p->root = op->lane;
  }
  if (p->n_launch == p->ops->n_launch) return SP_OK;
  return sp_fail(p->err, SP_E_INVALID, "schedule: a list of %d LAUNCHes has %d", p->ops->n_launch, p->n_launch);
}

static int check_slots(const sp_sched_input *in, const int *slots, sp_err *err) {
  for (size_t i = 0; i < in->n_resources; i++)
    if (slots[i] < 1 || slots[i] > SP_SCHED_MAX_SLOTS)
      return sp_fail(err, SP_E_INVALID, "schedule: '%s' has %d slots: 1 to %d are possible", in->resources[i].name,
                     slots[i], SP_SCHED_MAX_SLOTS);
  return SP_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool places_differ(const play *p) {
  int place = -1;
  for (size_t l = 0; l < p->lanes; l++) {
    if (p->in->lanes[l].host) continue;
    if (place >= 0 && p->in->lanes[l].place != place) return true;
    place = p->in->lanes[l].place;
  }
  return false;
}

static int count_cells(play *p, size_t *buffers) {
  size_t cells;
  p->event = sp_calloc(p->tasks + 2, sizeof *p->event);
  p->buffer = sp_calloc(p->in->n_resources + 1, sizeof *p->buffer);
  if (!p->event || !p->buffer) return sp_nomem(p->err, p->in->n_resources * sizeof *p->buffer, "the proof");
  for (size_t i = 0; i < p->tasks; i++) {
    p->event[i] = p->events;
    p->events += p->ops->ring[i] > 0 ? (size_t)p->ops->ring[i] : 1;
  }
  p->event[p->tasks] = p->events;
  p->events += p->ops->tick_ring > 0 ? (size_t)p->ops->tick_ring : 1;
  *buffers = 0;
  for (size_t i = 0; i < p->in->n_resources; i++) {
    p->buffer[i] = *buffers;
    *buffers += (size_t)p->slots[i];
  }
  cells = (p->events + p->window + p->tasks + 2 * p->lanes) * p->comps;
  if (cells <= SP_SCHED_MAX_CELLS && 2 * *buffers <= SP_SCHED_MAX_CELLS / (p->comps + 1)) return SP_OK;
  return sp_fail(p->err, SP_E_RANGE,
                 "schedule: %zu tasks on %zu lanes with %zu buffers are too many to prove: use fewer slots or smaller "
                 "delays",
                 p->tasks, p->lanes, *buffers);
}

static int new_play(play *p) {
  size_t buffers = 0, lanes = p->in->n_lanes;
  int st;
  p->lanes = lanes;
  p->tasks = p->in->n_tasks;
  if ((st = check_form(p))) return st;
  p->comps = p->root >= 0 ? 2 * lanes : lanes;
  for (size_t i = 0; i < p->tasks; i++)
    if (delay_of(p, (int)i) > p->depth) p->depth = delay_of(p, (int)i);
  p->window = (size_t)p->depth + 2;
  if ((st = count_cells(p, &buffers))) return st;
  p->stream = sp_calloc(lanes * p->comps + 1, sizeof *p->stream);
  p->part = sp_calloc(lanes * p->comps + 1, sizeof *p->part);
  p->cut = sp_calloc(p->tasks * p->comps + 1, sizeof *p->cut);
  p->known = sp_calloc(p->window * p->comps + 1, sizeof *p->known);
  p->count = sp_calloc(p->comps + 1, sizeof *p->count);
  p->latest = sp_calloc(p->tasks + 1, sizeof *p->latest);
  p->now = sp_calloc(p->comps + 1, sizeof *p->now);
  p->clock = sp_calloc(p->events * p->comps + 1, sizeof *p->clock);
  p->run = sp_calloc(p->events + 1, sizeof *p->run);
  p->holds = sp_calloc(p->events + 1, sizeof *p->holds);
  p->again = sp_calloc(p->events + 1, sizeof *p->again);
  p->held = sp_calloc(p->events + 1, sizeof *p->held);
  p->late = places_differ(p) ? sp_calloc(p->events * lanes + 1, sizeof *p->late) : NULL;
  p->writer = sp_calloc(buffers + 1, sizeof *p->writer);
  p->reader = sp_calloc(buffers * p->comps + 1, sizeof *p->reader);
  p->latest_reader = sp_calloc(buffers * p->comps + 1, sizeof *p->latest_reader);
  if (!p->stream || !p->part || !p->cut || !p->known || !p->count || !p->latest || !p->now || !p->clock || !p->run ||
      !p->holds || !p->again || !p->held || (!p->late && places_differ(p)) || !p->writer || !p->reader ||
      !p->latest_reader)
    return sp_nomem(p->err, (p->events + buffers) * p->comps * sizeof *p->reader, "the proof");
  for (size_t i = 0; i < p->tasks; i++) p->latest[i] = -1;
  for (size_t i = 0; i < p->events; i++) p->run[i] = -1, p->holds[i] = i;
  return SP_OK;
}

static int *known_at(const play *p, int step) { return p->known + (size_t)step % p->window * p->comps; }
static int *of_stream(const play *p, int lane) { return p->stream + (size_t)lane * p->comps; }
static int *of_part(const play *p, int lane) { return p->part + (size_t)lane * p->comps; }
static int *of_event(const play *p, size_t e) { return p->clock + e * p->comps; }

static size_t event_of(const play *p, int task, int step) {
  int ring = p->ops->ring[task] > 0 ? p->ops->ring[task] : 1; /* without a record nothing is ever there */
  return p->event[task] + (size_t)((step - p->in->tasks[task].phase) / p->in->tasks[task].every % ring);
}

static void join(const play *p, int *into, const int *from) {
  for (size_t l = 0; l < p->comps; l++)
    if (from[l] > into[l]) into[l] = from[l];
}

/* What the host learnt in step h is not counted for older steps. */
static void host_learns(const play *p, const int *clock, int step, int tick) {
  for (int s = step; s <= tick; s++) join(p, known_at(p, s), clock);
}

/* ---- waits and records ------------------------------------------------------------------------------------------- */

static int too_late(const play *p, const sp_op *op, int step, int run) {
  return sp_fail(p->err, SP_E_RACE,
                 "'%s' (lane '%s', delay %d) of step %d waits for '%s' (lane '%s', delay %d) of step %d, "
                 "which is submitted later",
                 name(p, op->task), lane_name(p, op->task), shown_delay(p, op->task), step, name(p, op->from),
                 lane_name(p, op->from), shown_delay(p, op->from), run);
}

static int ring_small(const play *p, const sp_op *op, int step, int run, int again) {
  return sp_fail(p->err, SP_E_RACE,
                 "'%s' has %d events, but runs %d more times before '%s' of step %d waits for its run of "
                 "step %d: it needs %d",
                 name(p, op->from), p->ops->ring[op->from], again, name(p, op->task), step, run, again + 1);
}

/* The event that a wait or sync of step `step` looks at, SIZE_MAX: none; *none where there is nothing to wait for. */
static int look_up(const play *p, const sp_op *op, int step, size_t *event, bool *none) {
  const sp_sched_task *src = &p->in->tasks[op->from];
  int run = step - op->back;
  if (run >= src->phase) run -= (run - src->phase) % src->every;
  *none = run < p->base || run < src->phase; /* before the first step, or before the drain: done */
  *event = run < src->phase ? SIZE_MAX : event_of(p, op->from, run);
  if (*none) return SP_OK;
  size_t e = *event;
  if (p->latest[op->from] < run) return too_late(p, op, step, run);
  if (p->run[e] > run) return ring_small(p, op, step, run, (p->run[e] - run) / src->every);
  if (p->run[e] == run && p->again[p->holds[e]] != p->held[e])
    return sp_fail(p->err, SP_E_RACE, "ticks have %d events, which is too few for '%s' of step %d", p->ops->tick_ring,
                   name(p, op->task), step);
  *none = p->run[e] < 0; /* never recorded: complete */
  return SP_OK;
}

static int play_wait(play *p, const sp_op *op, int step) {
  size_t e;
  bool none;
  int st = look_up(p, op, step, &e, &none);
  if (st) return st;
  if (!none) join(p, of_stream(p, op->lane), of_event(p, e));
  /* A thread looks at the event of a run before the drain too: it must not find a newer record there. */
  if (p->late && e != SIZE_MAX && p->in->lanes[op->lane].place != p->in->lanes[p->in->tasks[op->from].lane].place)
    p->late[p->holds[e] * p->lanes + (size_t)op->lane] = p->count[op->lane] + 1;
  return SP_OK;
}

static int play_sync(play *p, const sp_op *op, int step, int tick) {
  size_t e;
  bool none;
  int st = look_up(p, op, step, &e, &none);
  if (!st && !none) host_learns(p, of_event(p, e), step, tick);
  return st;
}

/* An event that a thread may still have to look at must not be recorded again: the host has to know that it has. */
static int check_late(const play *p, size_t e, int task, int step) {
  for (size_t l = 0; p->late && l < p->lanes; l++) {
    int *late = &p->late[e * p->lanes + l];
    if (*late > known_at(p, step)[l])
      return sp_fail(p->err, SP_E_RACE,
                     "'%s' of step %d records an event again that lane '%s' may still have to wait for: it needs more "
                     "events",
                     name(p, task), step, p->in->lanes[l].name);
    *late = 0;
  }
  return SP_OK;
}

static int play_record(play *p, const sp_op *op, int step) {
  size_t e = event_of(p, op->task, step);
  int st = check_late(p, e, op->task, step);
  memcpy(of_event(p, e), of_stream(p, op->lane), p->comps * sizeof *p->clock);
  p->run[e] = step;
  p->holds[e] = e;
  p->held[e] = ++p->again[e];
  return st;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static const char *verb(int mode) { return mode & SP_WRITE ? "writes" : "reads"; }

/* The earlier access e (in which mode) against the present one. */
static int check_pair(const play *p, const touch *e, int emode, int task, int step, int mode, int resource) {
  if (!e->index || (e->task == task && e->step == step)) return SP_OK;
  const char *res = p->in->resources[resource].name;
  int slot = step % p->slots[resource], back = step - e->step;
  if (e->step > step || (e->step == step && e->task > task))
    return sp_fail(p->err, SP_E_RACE,
                   "'%s' (lane '%s', delay %d) of step %d %s slot %d of '%s' only after '%s' (lane '%s', "
                   "delay %d) of step %d %s it: in the program it is the other way round",
                   name(p, task), lane_name(p, task), shown_delay(p, task), step, verb(mode), slot, res,
                   name(p, e->task), lane_name(p, e->task), shown_delay(p, e->task), e->step, verb(emode));
  int lane = p->in->tasks[e->task].lane;
  if (p->in->lanes[lane].host || e->index <= p->now[e->comp]) return SP_OK; /* the host's are done when they return */
  return sp_fail(p->err, SP_E_RACE,
                 "'%s' (lane '%s') of step %d %s slot %d of '%s', which '%s' (lane '%s') of step %d %s, "
                 "and nothing orders the two: '%s' must wait for '%s' %s%.0d%s",
                 name(p, task), lane_name(p, task), step, verb(mode), slot, res, name(p, e->task),
                 lane_name(p, e->task), e->step, verb(emode), name(p, task), name(p, e->task),
                 back ? "of " : "of the same step", back,
                 back == 0   ? ""
                 : back == 1 ? " step before"
                             : " steps before");
}

static int check_access(const play *p, int task, int step, int resource, int mode) {
  size_t b = p->buffer[resource] + (size_t)(step % p->slots[resource]);
  int st = check_pair(p, &p->writer[b], SP_WRITE, task, step, mode, resource);
  if (!(mode & SP_WRITE)) return st;
  for (size_t l = b * p->comps; l < (b + 1) * p->comps && !st; l++) {
    st = check_pair(p, &p->reader[l], SP_READ, task, step, mode, resource);
    if (!st) st = check_pair(p, &p->latest_reader[l], SP_READ, task, step, mode, resource);
  }
  return st;
}

static void note_access(play *p, const touch *t, int resource, int mode) {
  size_t b = p->buffer[resource] + (size_t)(t->step % p->slots[resource]), first = b * p->comps;
  if (mode & SP_WRITE) {
    p->writer[b] = *t;
    memset(p->reader + first, 0, p->comps * sizeof *p->reader);
    memset(p->latest_reader + first, 0, p->comps * sizeof *p->latest_reader);
    return;
  }
  touch *r = &p->reader[first + (size_t)t->comp];
  if (!r->index || t->step > r->step || (t->step == r->step && t->task > r->task)) *r = *t;
  p->latest_reader[first + (size_t)t->comp] = *t;
}

/* A task with the clock `p->now`; the clock behind it is there afterwards. Checksums are the task once more: who reads
 * what it has written comes behind them too, since they go into its call record. */
static int play_access(play *p, const sp_op *op, int step, int comp) {
  const sp_sched_task *t = &p->in->tasks[op->task];
  if (op->kind == SP_OP_HASH && p->latest[op->task] != step)
    return sp_fail(p->err, SP_E_RACE, "'%s' of step %d is hashed before it runs", name(p, op->task), step);
  for (size_t i = 0; i < t->n_acc; i++) {
    int st = check_access(p, op->task, step, t->acc[i].resource, t->acc[i].mode);
    if (st) return st;
  }
  touch me = {op->task, step, ++p->count[comp], comp};
  for (int mode = SP_READ; mode <= SP_WRITE; mode++)
    for (size_t i = 0; i < t->n_acc; i++)
      if (t->acc[i].mode & mode) note_access(p, &me, t->acc[i].resource, mode);
  p->now[comp] = me.index;
  p->latest[op->task] = step;
  return SP_OK;
}

static int play_host(play *p, const sp_op *op, int step, int tick) {
  memcpy(p->now, known_at(p, step), p->comps * sizeof *p->now);
  int st = play_access(p, op, step, op->lane);
  if (!st) host_learns(p, p->now, step, tick);
  return st;
}

static int play_call(play *p, const sp_op *op, int step) {
  int *stream = of_stream(p, op->lane);
  memcpy(p->now, stream, p->comps * sizeof *p->now);
  join(p, p->now, known_at(p, step));
  int st = play_access(p, op, step, op->lane);
  memcpy(stream, p->now, p->comps * sizeof *p->now);
  return st;
}

/* ---- launched ticks ---------------------------------------------------------------------------------------------- */

static bool of_root(const play *p, size_t lane) {
  return !p->in->lanes[lane].host && p->in->lanes[lane].place == p->in->lanes[p->root].place;
}

/* A tick may be launched where every task of it has its step in the loop. */
static bool may_launch(const play *p, const sp_op *launch, int tick) {
  for (int i = 1; i <= launch->n; i++) {
    int step = tick - delay_of(p, launch[i].task);
    if (step < p->base || step >= p->end) return false;
  }
  return true;
}

static bool drawn(const play *p, int tick) {
  uint32_t x = (uint32_t)tick * 2654435761u;
  return (int)(x >> 16 & 3) < p->quarters;
}

static void switch_to(play *p, bool whole) {
  int *root = of_stream(p, p->root);
  if (whole == p->joined) return;
  for (size_t l = 0; l < p->lanes; l++) {
    if (!of_root(p, l)) continue;
    if (whole) join(p, root, of_stream(p, (int)l));
    else join(p, of_stream(p, (int)l), root);
  }
  p->joined = whole;
}

/* Waits for an event of the same tick are edges of the graph; the others are implied, or else the accesses show it. */
static void play_edge(const play *p, const sp_op *op, int step, int tick) {
  const sp_sched_task *src = &p->in->tasks[op->from];
  int ran = tick - delay_of(p, op->from);
  if (ran == step - op->back && runs(src, ran)) join(p, of_part(p, op->lane), p->cut + (size_t)op->from * p->comps);
}

static int play_part(play *p, const sp_op *op, int tick) {
  int step = tick - delay_of(p, op->task), st = SP_OK;
  int *part = of_part(p, op->lane);
  if (!runs(&p->in->tasks[op->task], step)) return SP_OK;
  if (op->kind == SP_OP_WAIT) play_edge(p, op, step, tick);
  if (op->kind == SP_OP_RECORD) memcpy(p->cut + (size_t)op->task * p->comps, part, p->comps * sizeof *part);
  if (!sp_op_works(op->kind)) return SP_OK;
  memcpy(p->now, part, p->comps * sizeof *p->now);
  join(p, p->now, known_at(p, step));
  st = play_access(p, op, step, op->lane + (int)p->lanes);
  memcpy(part, p->now, p->comps * sizeof *part);
  return st;
}

static int play_launch(play *p, const sp_op *launch, int tick) {
  int *root = of_stream(p, p->root), st = SP_OK;
  memset(p->cut, 0, p->tasks * p->comps * sizeof *p->cut);
  for (size_t l = 0; l < p->lanes; l++) memcpy(of_part(p, (int)l), root, p->comps * sizeof *root);
  for (int i = 1; i <= launch->n && !st; i++) st = play_part(p, &launch[i], tick);
  for (size_t l = 0; l < p->lanes; l++) join(p, root, of_part(p, (int)l));
  return st;
}

/* One event stands for all records of the launched body. */
static int record_tick(play *p, const sp_op *launch, int tick) {
  size_t e = p->event[p->tasks] + (size_t)(tick % (p->ops->tick_ring > 0 ? p->ops->tick_ring : 1));
  int oldest = tick - p->depth < 0 ? 0 : tick - p->depth;
  int st = check_late(p, e, launch[1].task, oldest);
  p->again[e]++;
  for (int i = 1; i <= launch->n && !st; i++) {
    const sp_op *op = &launch[i];
    int step = tick - delay_of(p, op->task);
    if (op->kind != SP_OP_RECORD || !runs(&p->in->tasks[op->task], step)) continue;
    size_t own = event_of(p, op->task, step);
    memcpy(of_event(p, own), of_stream(p, p->root), p->comps * sizeof *p->clock);
    p->run[own] = step;
    p->holds[own] = e;
    p->held[own] = p->again[e];
  }
  return st;
}

/* ---- the play ---------------------------------------------------------------------------------------------------- */

static int play_op(play *p, const sp_op *op, int step, int tick) {
  switch (op->kind) {
    case SP_OP_WAIT: return play_wait(p, op, step);
    case SP_OP_SYNC: return play_sync(p, op, step, tick);
    case SP_OP_RECORD: return play_record(p, op, step);
    case SP_OP_FINISH: host_learns(p, of_stream(p, op->lane), step, tick); return SP_OK;
    case SP_OP_MARK:
    case SP_OP_LAUNCH: return SP_OK;
    default: return p->in->lanes[op->lane].host ? play_host(p, op, step, tick) : play_call(p, op, step);
  }
}

static int play_tick(play *p, int tick) {
  const sp_op *launch = NULL;
  for (size_t i = 0; i < p->ops->n; i++) {
    const sp_op *op = &p->ops->op[i];
    int st = SP_OK;
    if (op->task >= 0) {
      int step = tick - delay_of(p, op->task);
      if (step >= p->base && step < p->end && runs(&p->in->tasks[op->task], step)) st = play_op(p, op, step, tick);
    } else if (op->kind == SP_OP_LAUNCH) {
      launch = op;
      switch_to(p, p->whole = may_launch(p, op, tick) && drawn(p, tick));
      if (p->whole) {
        st = play_launch(p, op, tick);
        i += (size_t)op->n;
      }
    } else if (launch && p->whole) st = record_tick(p, launch, tick);
    if (st) return st;
  }
  return SP_OK;
}

/* Fill, steady state and drain of the steps base..base + n - 1; then all lanes are joined. */
static int play_steps(play *p, int n) {
  p->end = p->base + n;
  memcpy(known_at(p, p->base), p->count, p->comps * sizeof *p->count);
  for (int tick = p->base; tick < p->end + p->depth; tick++) {
    if (tick > p->base) memcpy(known_at(p, tick), known_at(p, tick - 1), p->comps * sizeof *p->known);
    int st = play_tick(p, tick);
    if (st) return st;
  }
  p->base = p->end;
  return SP_OK;
}

/* At least `least` steps, so many that the next one after the drain is at this phase of the period. */
static int play_to_phase(play *p, int least, int phase, int period) {
  int behind = (p->base + least - phase) % period;
  return play_steps(p, least + (behind ? period - behind : 0));
}

/* Drains of launched ticks, and of a mixture of both kinds, at each phase. */
static int play_phases(play *p, int span, int period) {
  int status = SP_OK;
  for (int phase = 0; phase < period && !status; phase++)
    for (p->quarters = 4; p->quarters > 0 && !status; p->quarters = p->quarters == 4 ? 3 : p->quarters - 2)
      status = play_to_phase(p, p->depth + span + (p->quarters == 4 ? 0 : p->depth + period), phase, period);
  p->quarters = 4;
  return status;
}

/* What sp_schedule_span allows for a few plays, here for three at each phase. */
static int check_phases(const play *p, int span, int period) {
  int64_t steps = 3 * (int64_t)period * (2 * p->depth + span + 2 * period), ops = 0;
  for (size_t i = 0; i < p->ops->n; i++) ops += p->ops->op[i].kind != SP_OP_MARK; /* a trace refuses nothing */
  if (p->root < 0 || steps * ops * (int64_t)p->comps <= SP_SCHED_MAX_WORK) return SP_OK;
  return sp_fail(
      p->err, SP_E_RANGE,
      "the pattern of steps repeats only after %d of them, which is too long for a graph of whole steps: choose "
      "capture = \"lane\" (--capture lane), or fewer batches to accumulate",
      period);
}

int sp_ops_prove(const sp_ops *ops, const sp_sched_input *in, const int *slots, sp_err *err) {
  play p = {.ops = ops, .in = in, .slots = slots, .err = err, .quarters = 4};
  int period, span, status = sp_schedule_check(in, err);
  if (!status) status = check_slots(in, slots, err);
  if (!status) status = sp_schedule_span(in, slots, &period, &span, err);
  if (status) return status;
  status = new_play(&p);
  if (!status) status = check_phases(&p, span, period);
  if (!status) status = play_steps(&p, p.depth + span + 2 * period + 1);
  if (!status) status = play_steps(&p, p.depth + span + period + 1);
  if (!status && p.root >= 0) status = play_phases(&p, span, period);
  p.quarters = 0;
  if (!status && p.root >= 0) status = play_steps(&p, p.depth + span + 2 * period + 1);
  free_play(&p);
  return status;
}
