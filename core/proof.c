/* SPDX-License-Identifier: MIT
 * proof.c - plays a schedule with vector clocks and finds any two conflicting accesses that it leaves unordered.
 *
 * Shares nothing with the derivation but the input's bounds: it looks at accesses, submission order, slots, waits and
 * rings alone. Every run has a clock: per lane, the index of the last run that is known to be complete before it. It is
 * the join of the clocks of the run before it in its lane, of the runs it waits for, and of what the host had learnt.
 *
 * Why one play is enough. Take two conflicting runs X(r) and Y(s), X first. Clocks flow along lanes and waits from
 * older steps to the same or newer ones; only the host, with tasks of different delays, could carry knowledge from step
 * h to an older step. That knowledge is not counted (it is, from step h on), because a drain to the boundary before h
 * takes it away. So every path counted runs within the steps r..s, and is there however close before r a run began or
 * refilled and however close after s it drains. It depends on s only through which tasks run at which steps, that is on
 * s modulo the period of the `every`s; slot numbers do not matter, only that X is the last run on Y's slot, which lies
 * at most `span` steps back. So all cases are met when span + period steps are played. Fill, two periods, drain and
 * refill are played all the same: they check rings, and this argument. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

typedef struct touch {
  int task, step, index; /* index in its lane, from 1; 0: nobody */
} touch;

typedef struct play {
  const sp_schedule *s;
  const sp_sched_input *in;
  sp_err *err;
  size_t lanes, tasks, window;
  int base;       /* steps before it have been joined by a drain */
  int *clock;     /* [step % window][task][lane] */
  int *lane;      /* [lane][lane] */
  int *known;     /* [step % window][lane]: by the host, from steps up to this one */
  int *count;     /* [lane] runs so far */
  int *latest;    /* [task] step of its last run submitted, -1: none */
  int *now;       /* [lane] clock of the run being played */
  size_t *buffer; /* [resource] index of slot 0 */
  touch *writer;  /* [buffer] */
  touch *reader;  /* [buffer][lane] since that write; of the host's, the last in program order */
} play;

static void free_play(play *p) {
  free(p->clock);
  free(p->lane);
  free(p->known);
  free(p->count);
  free(p->latest);
  free(p->now);
  free(p->buffer);
  free(p->writer);
  free(p->reader);
}

static const char *name(const play *p, int task) { return p->in->tasks[task].name; }

static const char *lane_name(const play *p, int task) { return p->in->lanes[p->in->tasks[task].lane].name; }

static bool runs(const sp_sched_task *t, int step) { return step >= t->phase && (step - t->phase) % t->every == 0; }

static int check_form(const play *p) {
  const sp_schedule *s = p->s;
  if (s->n_items != p->in->n_tasks || s->n_resources != p->in->n_resources)
    return sp_fail(p->err, SP_E_INVALID, "schedule: %zu items and %zu resources for %zu tasks and %zu resources",
                   s->n_items, s->n_resources, p->in->n_tasks, p->in->n_resources);
  for (size_t i = 0; i < s->n_items; i++) {
    const sp_sched_task *t = &p->in->tasks[i];
    int want = t->delay >= 0 ? t->delay : p->in->lanes[t->lane].delay;
    if (s->delay[i] != want || want > s->depth)
      return sp_fail(p->err, SP_E_INVALID, "schedule: task '%s' has delay %d, the strategy says %d", t->name,
                     s->delay[i], want);
    if (s->order[i] < 0 || (size_t)s->order[i] >= s->n_items)
      return sp_fail(p->err, SP_E_INVALID, "schedule: the order names task %d of %zu", s->order[i], s->n_items);
    for (size_t k = 0; k < s->items[i].n_waits; k++) {
      const sp_sched_wait *w = &s->items[i].waits[k];
      if (w->task < 0 || (size_t)w->task >= s->n_items || w->back < 0 || w->back > 1 << 16)
        return sp_fail(p->err, SP_E_INVALID, "schedule: '%s' waits for task %d, %d steps back", t->name, w->task,
                       w->back);
      if (!s->items[w->task].record)
        return sp_fail(p->err, SP_E_RACE, "'%s' waits for '%s', which records no event", t->name, name(p, w->task));
    }
  }
  for (size_t i = 1; i < s->n_items; i++) {
    int a = s->order[i - 1], b = s->order[i];
    if (s->delay[a] < s->delay[b] || (s->delay[a] == s->delay[b] && a >= b))
      return sp_fail(p->err, SP_E_RACE,
                     "'%s' (delay %d) is submitted before '%s' (delay %d): the oldest step must come "
                     "first, then the program's order",
                     name(p, a), s->delay[a], name(p, b), s->delay[b]);
  }
  for (size_t i = 0; i < s->n_resources; i++)
    if (s->slots[i] < 1)
      return sp_fail(p->err, SP_E_INVALID, "schedule: '%s' has %d slots", p->in->resources[i].name, s->slots[i]);
  return SP_OK;
}

static int new_play(play *p) {
  const sp_schedule *s = p->s;
  int back = 0, every = 1;
  for (size_t i = 0; i < s->n_items; i++) {
    if (p->in->tasks[i].every > every) every = p->in->tasks[i].every;
    for (size_t k = 0; k < s->items[i].n_waits; k++)
      if (s->items[i].waits[k].back > back) back = s->items[i].waits[k].back;
  }
  p->lanes = p->in->n_lanes;
  p->tasks = p->in->n_tasks;
  p->window = (size_t)(s->depth + back + every + 2);
  size_t cells = p->window * p->tasks * p->lanes, buffers = 0;
  p->buffer = sp_calloc(s->n_resources + 1, sizeof *p->buffer);
  if (!p->buffer) return sp_nomem(p->err, s->n_resources * sizeof *p->buffer, "the proof");
  for (size_t i = 0; i < s->n_resources; i++) {
    p->buffer[i] = buffers;
    buffers += (size_t)s->slots[i];
  }
  if (cells > SP_SCHED_MAX_CELLS || buffers > SP_SCHED_MAX_CELLS / (p->lanes + 1))
    return sp_fail(p->err, SP_E_RANGE,
                   "schedule: %zu tasks on %zu lanes with %zu buffers are too many to prove: use fewer "
                   "slots or smaller delays",
                   p->tasks, p->lanes, buffers);
  p->clock = sp_calloc(cells + 1, sizeof *p->clock);
  p->lane = sp_calloc(p->lanes * p->lanes + 1, sizeof *p->lane);
  p->known = sp_calloc(p->window * p->lanes + 1, sizeof *p->known);
  p->count = sp_calloc(p->lanes + 1, sizeof *p->count);
  p->latest = sp_calloc(p->tasks + 1, sizeof *p->latest);
  p->now = sp_calloc(p->lanes + 1, sizeof *p->now);
  p->writer = sp_calloc(buffers + 1, sizeof *p->writer);
  p->reader = sp_calloc(buffers * p->lanes + 1, sizeof *p->reader);
  if (!p->clock || !p->lane || !p->known || !p->count || !p->latest || !p->now || !p->writer || !p->reader)
    return sp_nomem(p->err, (cells + buffers * p->lanes) * sizeof *p->reader, "the proof");
  for (size_t i = 0; i < p->tasks; i++) p->latest[i] = -1;
  return SP_OK;
}

static int *known_at(const play *p, int step) { return p->known + (size_t)step % p->window * p->lanes; }

static int *clock_of(const play *p, int task, int step) {
  return p->clock + ((size_t)step % p->window * p->tasks + (size_t)task) * p->lanes;
}

static void join(const play *p, int *into, const int *from) {
  for (size_t l = 0; l < p->lanes; l++)
    if (from[l] > into[l]) into[l] = from[l];
}

static int take_wait(play *p, int task, int step, const sp_sched_wait *w) {
  const sp_sched_task *src = &p->in->tasks[w->task];
  int run = step - w->back;
  if (run >= src->phase) run -= (run - src->phase) % src->every;
  if (run < p->base || run < src->phase) return SP_OK; /* before the first step, or before the drain: done */
  if (p->latest[w->task] < run)
    return sp_fail(p->err, SP_E_RACE,
                   "'%s' (lane '%s', delay %d) of step %d waits for '%s' (lane '%s', delay %d) of step %d, "
                   "which is submitted later",
                   name(p, task), lane_name(p, task), p->s->delay[task] - p->in->shift, step, src->name,
                   lane_name(p, w->task), p->s->delay[w->task] - p->in->shift, run);
  int again = (p->latest[w->task] - run) / src->every, ring = p->s->items[w->task].ring;
  if (again >= ring)
    return sp_fail(p->err, SP_E_RACE,
                   "'%s' has %d events, but runs %d more times before '%s' of step %d waits for its run of "
                   "step %d: it needs %d",
                   src->name, ring, again, name(p, task), step, run, again + 1);
  join(p, p->now, clock_of(p, w->task, run));
  return SP_OK;
}

static const char *verb(int mode) { return mode & SP_WRITE ? "writes" : "reads"; }

/* The earlier access e (in which mode) against the present one. */
static int check_pair(const play *p, const touch *e, int emode, int task, int step, int mode, int resource) {
  if (!e->index || (e->task == task && e->step == step)) return SP_OK;
  const char *res = p->in->resources[resource].name;
  int slot = step % p->s->slots[resource], back = step - e->step;
  if (e->step > step || (e->step == step && e->task > task))
    return sp_fail(p->err, SP_E_RACE,
                   "'%s' (lane '%s', delay %d) of step %d %s slot %d of '%s' only after '%s' (lane '%s', "
                   "delay %d) of step %d %s it: in the program it is the other way round",
                   name(p, task), lane_name(p, task), p->s->delay[task] - p->in->shift, step, verb(mode), slot, res,
                   name(p, e->task), lane_name(p, e->task), p->s->delay[e->task] - p->in->shift, e->step, verb(emode));
  int lane = p->in->tasks[e->task].lane;
  if (p->in->lanes[lane].host || e->index <= p->now[lane]) return SP_OK; /* the host's are done when they return */
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

static int check_access(play *p, int task, int step, const sp_sched_access *a) {
  size_t b = p->buffer[a->resource] + (size_t)(step % p->s->slots[a->resource]);
  int st = check_pair(p, &p->writer[b], SP_WRITE, task, step, a->mode, a->resource);
  if (!(a->mode & SP_WRITE)) return st;
  for (size_t l = 0; l < p->lanes && !st; l++)
    st = check_pair(p, &p->reader[b * p->lanes + l], SP_READ, task, step, a->mode, a->resource);
  return st;
}

static void note_access(play *p, const touch *t, const sp_sched_access *a, int mode) {
  size_t b = p->buffer[a->resource] + (size_t)(t->step % p->s->slots[a->resource]);
  touch *r = &p->reader[b * p->lanes];
  if (a->mode & mode & SP_READ) {
    r += p->in->tasks[t->task].lane;
    if (!r->index || t->step > r->step || (t->step == r->step && t->task > r->task)) *r = *t;
  } else if (a->mode & mode & SP_WRITE) {
    p->writer[b] = *t;
    memset(r, 0, p->lanes * sizeof *r);
  }
}

static int play_run(play *p, int task, int step, int tick) {
  const sp_sched_task *t = &p->in->tasks[task];
  size_t lane = (size_t)t->lane;
  bool host = p->in->lanes[lane].host;
  memcpy(p->now, known_at(p, step), p->lanes * sizeof *p->now);
  if (!host) join(p, p->now, p->lane + lane * p->lanes);
  for (size_t i = 0; i < p->s->items[task].n_waits; i++) {
    int st = take_wait(p, task, step, &p->s->items[task].waits[i]);
    if (st) return st;
  }
  for (size_t i = 0; i < t->n_acc; i++) {
    int st = check_access(p, task, step, &t->acc[i]);
    if (st) return st;
  }
  touch me = {task, step, ++p->count[lane]};
  for (size_t i = 0; i < t->n_acc; i++) note_access(p, &me, &t->acc[i], SP_READ);
  for (size_t i = 0; i < t->n_acc; i++) note_access(p, &me, &t->acc[i], SP_WRITE);
  p->now[lane] = me.index;
  p->latest[task] = step;
  memcpy(clock_of(p, task, step), p->now, p->lanes * sizeof *p->now);
  if (!host) memcpy(p->lane + lane * p->lanes, p->now, p->lanes * sizeof *p->now);
  else
    for (int s = step; s <= tick; s++) join(p, known_at(p, s), p->now);
  return SP_OK;
}

/* Fill, steady state and drain of the steps base..base + n - 1; then all lanes are joined. */
static int play_steps(play *p, int n) {
  int end = p->base + n;
  memcpy(known_at(p, p->base), p->count, p->lanes * sizeof *p->count);
  for (int tick = p->base; tick < end + p->s->depth; tick++) {
    if (tick > p->base) memcpy(known_at(p, tick), known_at(p, tick - 1), p->lanes * sizeof *p->known);
    for (size_t k = 0; k < p->tasks; k++) {
      int task = p->s->order[k], step = tick - p->s->delay[task];
      if (step < p->base || step >= end || !runs(&p->in->tasks[task], step)) continue;
      int st = play_run(p, task, step, tick);
      if (st) return st;
    }
  }
  p->base = end;
  return SP_OK;
}

int sp_schedule_prove(const sp_schedule *s, const sp_sched_input *in, sp_err *err) {
  play p = {.s = s, .in = in, .err = err};
  int period, span, st = sp_schedule_check(in, err);
  if (st || (st = check_form(&p)) || (st = sp_schedule_span(in, s->slots, &period, &span, err))) return st;
  st = new_play(&p);
  if (!st) st = play_steps(&p, s->depth + span + 2 * period + 1);
  if (!st) st = play_steps(&p, s->depth + span + period + 1);
  free_play(&p);
  return st;
}
