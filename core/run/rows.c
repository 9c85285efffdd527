/* SPDX-License-Identifier: MIT
 * rows.c - see rows.h. A call of a device that records is timed as a graph of it, as it is launched later: its time is
 * the device's, not that of the thread that submits. */
#include "run/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 5, MOST = 32 }; /* of which the median counts; most runs in a turn */
#define LEAST 2e-3 /* seconds that two lanes are timed together for: a wake-up of a thread is little of it */

/* Full batches are what counts. Of the last steps only are there still records. */
uint64_t sp_row_full_step(const sp_loop *l, uint64_t last) {
  const sp_machine *m = l->m;
  for (uint64_t s = last; m->has_feed && s >= l->first && last - s < (uint64_t)m->p->ring / 2; s--)
    if (m->known[s % (uint64_t)m->p->ring].n == m->batch) return s;
    else if (!s) break;
  return last;
}

/* The step that a task is at when the first lanes are at `newest`, false: none. */
static bool step_of(const sp_loop *l, const sp_task *t, uint64_t newest, uint64_t *step) {
  const sp_program *p = l->m->p;
  int least = INT32_MAX;
  for (size_t i = 0; i < p->n_tasks; i++)
    if (sp_task_is_work(p, &p->tasks[i]) && p->sched.delay[i] < least) least = p->sched.delay[i];
  uint64_t back = (uint64_t)(p->sched.delay[t->index] - least);
  if (newest < l->first + back) return false;
  *step = newest - back;
  uint64_t over = (*step + (uint64_t)t->every - (uint64_t)t->phase) % (uint64_t)t->every;
  if (*step < l->first + over) return false;
  *step -= over;
  return true;
}

static int submit_row(const sp_row *r, sp_err *err) {
  sp_ctx_holder h;
  int st = SP_OK;
  if (r->graph) return r->place->type->graph_launch(sp_ctx_for(&h, "a measurement", err), r->graph, r->stream);
  for (size_t i = 0; i < r->n && !st; i++) st = sp_submit_again(r->l, r->task[i], r->step[i], r->stream, err);
  return st;
}

/* Where it cannot be recorded, its calls are made one by one as in the loop. */
void sp_row_record(sp_row *r) {
  sp_ctx_holder h;
  sp_err ignored;
  const sp_device_type *d = r->place->type;
  bool can =
      r->n && r->place == &r->l->m->g->main && r->l->m->g->border && d->flags & SP_DEVICE_CAPTURE && !r->l->m->g->sync;
  for (size_t i = 0; i < r->n; i++)
    can = can && (!r->task[i]->node || sp_task_inst(r->task[i])->type->flags & SP_STAGE_CAPTURABLE);
  if (!can || d->capture_begin(sp_ctx_for(&h, "a measurement", &ignored), r->stream)) return;
  int st = submit_row(r, &ignored);
  void *graph = NULL;
  if (d->capture_end(sp_ctx_for(&h, "a measurement", &ignored), r->stream, &graph)) graph = NULL;
  if (st && graph) d->graph_close(graph);
  else r->graph = graph;
}

void sp_row_close(sp_row *r) {
  if (r->graph) r->place->type->graph_close(r->graph);
  free(r->task);
  free(r->step);
  *r = (sp_row){0};
}

int sp_row_open(sp_row *r, sp_loop *l, size_t lane, const sp_task *only, uint64_t newest, sp_err *err) {
  const sp_program *p = l->m->p;
  *r = (sp_row){.l = l, .lane = lane, .place = p->lanes[lane].place, .stream = sp_machine_stream(l->m, (int)lane)->own};
  r->task = sp_calloc(p->n_tasks + 1, sizeof *r->task);
  r->step = sp_calloc(p->n_tasks + 1, sizeof *r->step);
  if (!r->task || !r->step) {
    sp_row_close(r);
    return sp_nomem(err, p->n_tasks * sizeof *r->task, "measurements");
  }
  for (size_t i = 0; i < p->n_tasks; i++) {
    const sp_task *t = &p->tasks[i];
    if (t->lane != (int)lane || !sp_task_is_work(p, t) || (only && t != only) || !step_of(l, t, newest, &r->step[r->n]))
      continue;
    r->task[r->n++] = t;
  }
  return SP_OK;
}

/* ---- alone ------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
  qsort(v, n, sizeof *v, by_size);
  return v[(n - 1) / 2]; /* the lower of two: what disturbs a measurement makes it longer */
}

/* Seconds of the device between two of its events with so many runs between them,
 * and the host's for submitting them. */
static int between(const sp_row *r, void *const e[2], int runs, double *seconds, double *submit, sp_err *err) {
  sp_ctx_holder h;
  double ms = 0;
  int st = sp_place_record(r->place, e[0], r->stream, "a measurement", err);
  double since = sp_now();
  for (int i = 0; i < runs && !st; i++) st = submit_row(r, err);
  *submit = (sp_now() - since) / runs;
  if (!st) st = sp_place_record(r->place, e[1], r->stream, "a measurement", err);
  if (!st) st = sp_place_sync_event(r->place, e[1], "a measurement", err);
  if (!st) st = sp_place_sync(r->place, r->stream, "a measurement", err);
  if (!st) st = r->place->type->event_elapsed(sp_ctx_for(&h, "a measurement", err), e[0], e[1], &ms);
  *seconds = ms * 1e-3 / runs;
  return st;
}

/* The first run is not counted, unless it takes all the time that there is. */
int sp_row_time(const sp_row *r, double budget, sp_cost *cost, sp_err *err) {
  void *e[2] = {NULL, NULL};
  double v[TURNS], submit = 0;
  int n = 0, st = sp_place_event(r->place, SP_EVENT_TIMING, "a measurement", &e[0], err);
  if (budget < SP_ROWS_SOON / 4) budget = SP_ROWS_SOON / 4;
  if (!st) st = sp_place_event(r->place, SP_EVENT_TIMING, "a measurement", &e[1], err);
  if (!st) st = between(r, e, 1, &cost->seconds, &cost->submit, err);
  double first = st ? 0 : cost->seconds, left = budget - first;
  int runs = (int)fmin(MOST, fmax(1, left / (TURNS + 1) / fmax(first, 1e-7)));
  for (; n < TURNS && !st && left > runs * first; n++) {
    if ((st = between(r, e, runs, &v[n], &submit, err))) break;
    cost->submit = fmin(cost->submit, submit);
    left -= runs * v[n];
  }
  if (!st && n) cost->seconds = median(v, (size_t)n);
  for (int i = 0; i < 2; i++)
    if (e[i]) r->place->type->event_close(e[i]);
  return st;
}

/* The host's part of a call that is made by itself, where it was timed as a graph. Whatever disturbs it only adds. */
int sp_row_time_submit(sp_row *r, double budget, sp_cost *cost, sp_err *err) {
  void *graph = r->graph;
  int st = SP_OK;
  r->graph = NULL;
  cost->submit = INFINITY;
  for (int i = 0; i < TURNS && !st && (!i || i * cost->seconds < budget); i++) {
    double since = sp_now();
    st = submit_row(r, err);
    cost->submit = fmin(cost->submit, sp_now() - since);
    if (!st) st = sp_place_sync(r->place, r->stream, "a measurement", err);
  }
  r->graph = graph;
  return st;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

double sp_row_seconds(const sp_costs *c, const sp_row *r) {
  double sum = 0;
  for (size_t i = 0; i < r->n; i++) {
    const sp_cost *known = sp_costs_task(c, r->task[i]);
    sum += known ? known->seconds : 0;
  }
  return sum;
}

/* One writes what the other reads or writes, at the steps that they are at: they are never done at the same time. */
static bool conflict(const sp_program *p, const sp_task *a, uint64_t step_a, const sp_task *b, uint64_t step_b) {
  for (size_t i = 0; i < a->n_acc; i++)
    for (size_t k = 0; k < b->n_acc; k++) {
      if (a->acc[i].resource != b->acc[k].resource || !((a->acc[i].mode | b->acc[k].mode) & SP_WRITE)) continue;
      uint64_t slots = (uint64_t)(p->bufs[a->acc[i].resource].slots > 0 ? p->bufs[a->acc[i].resource].slots : 1);
      if (step_a % slots == step_b % slots) return true;
    }
  return false;
}

static void drop_task(sp_row *r, size_t i) {
  memmove(r->task + i, r->task + i + 1, (r->n - i - 1) * sizeof *r->task);
  memmove(r->step + i, r->step + i + 1, (r->n - i - 1) * sizeof *r->step);
  r->n--;
}

static bool find_conflict(const sp_row *a, const sp_row *b, size_t *i, size_t *k) {
  for (*i = 0; *i < a->n; ++*i)
    for (*k = 0; *k < b->n; ++*k)
      if (conflict(a->l->m->p, a->task[*i], a->step[*i], b->task[*k], b->step[*k])) return true;
  return false;
}

void sp_rows_keep_apart(sp_row *a, sp_row *b, const sp_costs *c) {
  for (size_t i, k; find_conflict(a, b, &i, &k);)
    if (sp_row_seconds(c, a) > sp_row_seconds(c, b)) drop_task(a, i);
    else drop_task(b, k);
}

/* How often each is run, so that all take about as long. */
static void set_runs(sp_row *r, size_t n, const sp_costs *c) {
  double longest = LEAST;
  for (size_t i = 0; i < n; i++) longest = fmax(longest, sp_row_seconds(c, &r[i]));
  for (size_t i = 0; i < n; i++)
    r[i].runs = !r[i].n ? 0 : (int)fmin(32 * MOST, fmax(1, longest / fmax(sp_row_seconds(c, &r[i]), 1e-9) + 0.5));
}

/* The next to be submitted, so that all get on alike; NULL: all are. */
static sp_row *next_row(sp_row *r, size_t n) {
  sp_row *next = NULL;
  for (size_t i = 0; i < n; i++)
    if (r[i].done < r[i].runs && (!next || (long)r[i].done * next->runs < (long)next->done * r[i].runs)) next = &r[i];
  return next;
}

/* The host's seconds for all runs of all rows. */
static int clock_rows(sp_row *r, size_t n, double *seconds, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < n; i++) r[i].done = 0;
  double since = sp_now();
  for (sp_row *next; !st && (next = next_row(r, n)); next->done++) st = submit_row(next, err);
  for (size_t i = 0; i < n && !st; i++) st = sp_place_sync(r[i].place, r[i].stream, "a measurement", err);
  *seconds = sp_now() - since;
  return st;
}

/* Where there is no time to run each alone as well, what is known of their calls has to do. */
int sp_rows_time(sp_row *r, size_t n, const sp_costs *c, double budget, double *times, double *others, sp_err *err) {
  double v[TURNS], w[TURNS], all, one, known = 0;
  int k = 0, st = SP_OK;
  set_runs(r, n, c);
  for (size_t i = 0; i < n; i++) known += r[i].runs * sp_row_seconds(c, &r[i]);
  if (budget < SP_ROWS_SOON) budget = SP_ROWS_SOON;
  bool short_of_time = known > budget;
  for (double spent = 0; k < TURNS && (!k || spent * (k + 1) / k < budget) && !st; k++) {
    double longest = 0, sum = 0;
    for (size_t i = 0; i < n && !st; i++) {
      if (short_of_time) one = r[i].runs * sp_row_seconds(c, &r[i]);
      else st = clock_rows(&r[i], 1, &one, err);
      longest = fmax(longest, one);
      sum += one;
    }
    if (st || (st = clock_rows(r, n, &all, err))) break;
    v[k] = all / longest;
    w[k] = (sum - longest) / longest;
    spent += sum + all;
  }
  if (!st) *times = median(v, (size_t)k), *others = median(w, (size_t)k);
  return st;
}
