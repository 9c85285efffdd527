/* SPDX-License-Identifier: MIT
 * measure.c - see measure.h. A call of a device that records is timed as a graph of it, as it is launched later: its time is
 * the device's, not that of the thread that submits. */
#include "run/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 5, MOST = 32 }; /* of which the median counts; most runs in a turn */
#define NOISE 0.03             /* a share that is taken as none */
#define MATTERS 0.05           /* of the longest lane's work: what has less is in nobody's way */
#define SOON 0.1               /* seconds that any of them may take, for want of which a disturbed one would count */
#define LEAST 2e-3 /* seconds that two lanes are timed together for: a wake-up of a thread is little of it */

/* ---- by name ----------------------------------------------------------------------------------------------------- */

static const sp_cost *find(const sp_cost *list, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(list[i].name, name)) return &list[i];
  return NULL;
}

/* The calls of a stage's replicas cost the same: "enc.forward (2 of 4)". */
static size_t stem(const char *name) {
  const char *end = strstr(name, " (");
  return end ? (size_t)(end - name) : strlen(name);
}

static bool equal(const char *a, const char *b) { return stem(a) == stem(b) && !strncmp(a, b, stem(a)); }

static const sp_cost *find_task(const sp_costs *c, const sp_task *t) {
  for (size_t i = 0; i < c->n_tasks; i++)
    if (equal(c->task[i].name, t->name)) return &c->task[i];
  return NULL;
}

static int keep(sp_cost **list, size_t *n, size_t *cap, const char *name, sp_cost cost, sp_err *err) {
  cost.name = sp_strdup(name);
  if (!cost.name || !sp_grow(list, cap, *n + 1, sizeof **list)) {
    free(cost.name);
    return sp_nomem(err, sizeof cost, "measurements");
  }
  (*list)[(*n)++] = cost;
  return SP_OK;
}

static const sp_shared *find_pair(const sp_costs *c, const char *a, const char *b) {
  for (size_t i = 0; i < c->n_pairs; i++) {
    const sp_shared *s = &c->pair[i];
    if ((!strcmp(s->a, a) && !strcmp(s->b, b)) || (!strcmp(s->a, b) && !strcmp(s->b, a))) return s;
  }
  return NULL;
}

static int keep_pair(sp_costs *c, const char *a, const char *b, double share, sp_err *err) {
  sp_shared s = {sp_strdup(a), sp_strdup(b), share};
  if (!s.a || !s.b || !sp_grow(&c->pair, &c->cap_pairs, c->n_pairs + 1, sizeof s)) {
    free(s.a);
    free(s.b);
    return sp_nomem(err, sizeof s, "measurements");
  }
  c->pair[c->n_pairs++] = s;
  return SP_OK;
}

void sp_costs_free(sp_costs *c) {
  for (size_t i = 0; i < c->n_tasks; i++) free(c->task[i].name);
  for (size_t i = 0; i < c->n_lanes; i++) free(c->lane[i].name);
  for (size_t i = 0; i < c->n_pairs; i++) {
    free(c->pair[i].a);
    free(c->pair[i].b);
  }
  free(c->task);
  free(c->lane);
  for (size_t i = 0; i < c->n_crowds; i++) free(c->crowd[i].name);
  free(c->pair);
  free(c->crowd);
  *c = (sp_costs){0};
}

static bool is_work(const sp_program *p, const sp_task *t) {
  return !p->lanes[t->lane].host && (t->node || t->kind == SP_TASK_COPY);
}

static bool is_plain(const sp_task *t) { return !t->node && !t->moves; }

/* What a lane does, in words that are the same in every strategy. */
static char *name_of_lane(const sp_program *p, size_t lane) {
  sp_sb name = {0};
  for (size_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].lane == (int)lane && is_work(p, &p->tasks[i]) && !is_plain(&p->tasks[i]))
      sp_sb_putf(&name, "%s%.*s", name.n ? " " : "", (int)stem(p->tasks[i].name), p->tasks[i].name);
  if (!name.n) sp_sb_put(&name, "copies");
  if (!name.broken) return name.s;
  sp_sb_free(&name);
  return NULL;
}

/* ---- calls in a row ---------------------------------------------------------------------------------------------- */

typedef struct row {
  sp_loop *l;
  const sp_place *place;
  void *stream;
  const sp_task **task;
  uint64_t *step;
  size_t n;
  void *graph; /* of all of them, NULL: they are made one by one */
} row;

/* Full batches are what counts. Of the last steps only are there still records. */
static uint64_t full_step(const sp_loop *l, uint64_t last) {
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
    if (is_work(p, &p->tasks[i]) && p->sched.delay[i] < least) least = p->sched.delay[i];
  uint64_t back = (uint64_t)(p->sched.delay[t->index] - least);
  if (newest < l->first + back) return false;
  *step = newest - back;
  uint64_t over = (*step + (uint64_t)t->every - (uint64_t)t->phase) % (uint64_t)t->every;
  if (*step < l->first + over) return false;
  *step -= over;
  return true;
}

static int submit_row(const row *r, sp_err *err) {
  sp_ctx_holder h;
  int st = SP_OK;
  if (r->graph) return r->place->type->graph_launch(sp_ctx_for(&h, "a measurement", err), r->graph, r->stream);
  for (size_t i = 0; i < r->n && !st; i++) st = sp_submit_again(r->l, r->task[i], r->step[i], r->stream, err);
  return st;
}

/* Where it cannot be recorded, its calls are made one by one as in the loop. */
static void record_row(row *r) {
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

static void close_row(row *r) {
  if (r->graph) r->place->type->graph_close(r->graph);
  free(r->task);
  free(r->step);
  *r = (row){0};
}

/* All calls and copies of a lane, or one. */
static int open_row(row *r, sp_loop *l, size_t lane, const sp_task *only, uint64_t newest, sp_err *err) {
  const sp_program *p = l->m->p;
  *r = (row){.l = l, .place = p->lanes[lane].place, .stream = sp_machine_stream(l->m, (int)lane)->own};
  r->task = sp_calloc(p->n_tasks + 1, sizeof *r->task);
  r->step = sp_calloc(p->n_tasks + 1, sizeof *r->step);
  if (!r->task || !r->step) {
    close_row(r);
    return sp_nomem(err, p->n_tasks * sizeof *r->task, "measurements");
  }
  for (size_t i = 0; i < p->n_tasks; i++) {
    const sp_task *t = &p->tasks[i];
    if (t->lane != (int)lane || !is_work(p, t) || (only && t != only) || !step_of(l, t, newest, &r->step[r->n]))
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

/* Seconds of the device between two of its events with so many runs between them, and the host's for submitting them. */
static int between(const row *r, void *const e[2], int runs, double *seconds, double *submit, sp_err *err) {
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
static int time_row(const row *r, double budget, sp_cost *cost, sp_err *err) {
  void *e[2] = {NULL, NULL};
  double v[TURNS], submit = 0;
  int n = 0, st = sp_place_event(r->place, SP_EVENT_TIMING, "a measurement", &e[0], err);
  if (budget < SOON / 4) budget = SOON / 4;
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
static int time_submit(row *r, double budget, sp_cost *cost, sp_err *err) {
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

static int measure_task(sp_loop *l, const sp_task *t, uint64_t newest, double budget, sp_costs *c, sp_err *err) {
  row r;
  sp_cost cost = {.plain = is_plain(t)};
  int st = open_row(&r, l, (size_t)t->lane, t, newest, err);
  if (st) return st;
  record_row(&r);
  if (r.n) st = time_row(&r, budget, &cost, err);
  if (!st && r.graph) {
    c->launch = c->launch > 0 ? fmin(c->launch, cost.submit) : cost.submit;
    st = time_submit(&r, budget, &cost, err);
  }
  if (!st) st = keep(&c->task, &c->n_tasks, &c->cap_tasks, t->name, cost, err);
  close_row(&r);
  return st;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

/* One of several rows that are run at the same time, so often that all take about as long. */
typedef struct part {
  row r;
  size_t lane;
  int runs, done;
} part;

static double row_seconds(const sp_costs *c, const row *r) {
  double sum = 0;
  for (size_t i = 0; i < r->n; i++) {
    const sp_cost *known = find_task(c, r->task[i]);
    sum += known ? known->seconds : 0;
  }
  return sum;
}

static void set_runs(part *p, size_t n, const sp_costs *c) {
  double longest = LEAST;
  for (size_t i = 0; i < n; i++) longest = fmax(longest, row_seconds(c, &p[i].r));
  for (size_t i = 0; i < n; i++)
    p[i].runs = !p[i].r.n ? 0 : (int)fmin(32 * MOST, fmax(1, longest / fmax(row_seconds(c, &p[i].r), 1e-9) + 0.5));
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

static void drop_task(row *r, size_t i) {
  memmove(r->task + i, r->task + i + 1, (r->n - i - 1) * sizeof *r->task);
  memmove(r->step + i, r->step + i + 1, (r->n - i - 1) * sizeof *r->step);
  r->n--;
}

static bool find_conflict(const row *a, const row *b, size_t *i, size_t *k) {
  for (*i = 0; *i < a->n; ++*i)
    for (*k = 0; *k < b->n; ++*k)
      if (conflict(a->l->m->p, a->task[*i], a->step[*i], b->task[*k], b->step[*k])) return true;
  return false;
}

/* Leaves of two lanes what they may do at the same time; the longer one gives way. */
static void keep_apart(row *a, row *b, const sp_costs *c) {
  for (size_t i, k; find_conflict(a, b, &i, &k);)
    if (row_seconds(c, a) > row_seconds(c, b)) drop_task(a, i);
    else drop_task(b, k);
}

/* The next to be submitted, so that all get on alike; NULL: all are. */
static part *next_part(part *p, size_t n) {
  part *next = NULL;
  for (size_t i = 0; i < n; i++)
    if (p[i].done < p[i].runs && (!next || (long)p[i].done * next->runs < (long)next->done * p[i].runs)) next = &p[i];
  return next;
}

/* The host's seconds for all runs of all parts. */
static int clock_parts(part *p, size_t n, double *seconds, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < n; i++) p[i].done = 0;
  double since = sp_now();
  for (part *next; !st && (next = next_part(p, n)); next->done++) st = submit_row(&next->r, err);
  for (size_t i = 0; i < n && !st; i++) st = sp_place_sync(p[i].r.place, p[i].r.stream, "a measurement", err);
  *seconds = sp_now() - since;
  return st;
}

/* How much longer than the longest of them all take together: 1, not at all; and the sum of the others over the longest. Where
 * there is no time to run each alone as well, what is known of their calls has to do. */
static int time_parts(part *p, size_t n, const sp_costs *c, double budget, double *times, double *others, sp_err *err) {
  double v[TURNS], w[TURNS], all, one, known = 0;
  int k = 0, st = SP_OK;
  for (size_t i = 0; i < n; i++) known += p[i].runs * row_seconds(c, &p[i].r);
  if (budget < SOON) budget = SOON;
  bool short_of_time = known > budget;
  for (double spent = 0; k < TURNS && (!k || spent * (k + 1) / k < budget) && !st; k++) {
    double longest = 0, sum = 0;
    for (size_t i = 0; i < n && !st; i++) {
      if (short_of_time) one = p[i].runs * row_seconds(c, &p[i].r);
      else st = clock_parts(&p[i], 1, &one, err);
      longest = fmax(longest, one);
      sum += one;
    }
    if (st || (st = clock_parts(p, n, &all, err))) break;
    v[k] = all / longest;
    w[k] = (sum - longest) / longest;
    spent += sum + all;
  }
  if (!st) *times = median(v, (size_t)k), *others = median(w, (size_t)k);
  return st;
}

/* ---- all of a machine -------------------------------------------------------------------------------------------- */

typedef struct lanes {
  char **name;   /* [lane] NULL: it does nothing */
  double *alone; /* [lane] seconds */
  double most;
} lanes;

static void free_lanes(const sp_program *p, lanes *w) {
  for (size_t i = 0; w->name && i < p->n_lanes; i++) free(w->name[i]);
  free(w->name);
  free(w->alone);
}

static bool works(const sp_program *p, size_t lane) {
  for (size_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].lane == (int)lane && is_work(p, &p->tasks[i])) return true;
  return false;
}

static int measure_lane(sp_loop *l, size_t lane, uint64_t newest, double budget, sp_costs *c, lanes *w, sp_err *err) {
  const sp_cost *known = find(c->lane, c->n_lanes, w->name[lane]);
  sp_cost cost = {0};
  row r;
  if (known) {
    w->alone[lane] = known->seconds;
    return SP_OK;
  }
  int st = open_row(&r, l, lane, NULL, newest, err);
  if (st) return st;
  cost.seconds = row_seconds(c, &r);
  if (r.n > 1 && cost.seconds < fmax(budget, SOON / 4)) {
    record_row(&r);
    st = time_row(&r, budget, &cost, err);
  }
  close_row(&r);
  w->alone[lane] = cost.seconds;
  return st ? st : keep(&c->lane, &c->n_lanes, &c->cap_lanes, w->name[lane], cost, err);
}

static bool matters(const lanes *w, size_t lane) { return w->name[lane] && w->alone[lane] > MATTERS * w->most; }

static int open_part(part *p, sp_loop *l, size_t lane, uint64_t newest, sp_err *err) {
  *p = (part){.lane = lane};
  return open_row(&p->r, l, lane, NULL, newest, err);
}

static int measure_pair(sp_loop *l, size_t i, size_t k, uint64_t newest, double budget, sp_costs *c, const lanes *w,
                        sp_err *err) {
  part p[2] = {0};
  double times = 1, others = 1;
  if (find_pair(c, w->name[i], w->name[k])) return SP_OK;
  int st = open_part(&p[0], l, i, newest, err);
  if (!st) st = open_part(&p[1], l, k, newest, err);
  if (!st) keep_apart(&p[0].r, &p[1].r, c);
  bool both = !st && p[0].r.n && p[1].r.n;
  if (both) set_runs(p, 2, c);
  for (size_t x = 0; x < 2 && both; x++) record_row(&p[x].r);
  if (both) st = time_parts(p, 2, c, budget, &times, &others, err);
  double share = fmin(2, (times - 1) / fmax(others, 1e-9));
  if (both && !st) st = keep_pair(c, w->name[i], w->name[k], share < NOISE ? 0 : share, err);
  close_row(&p[0].r);
  close_row(&p[1].r);
  return st;
}

/* ---- all of them ---- */

static char *name_of_crowd(const sp_program *p, char *const *name, const bool *in) {
  sp_sb all = {0};
  for (size_t i = 0; i < p->n_lanes; i++)
    if (in[i]) sp_sb_putf(&all, "%s%s", all.n ? " | " : "", name[i]);
  if (!all.broken && all.n) return all.s;
  sp_sb_free(&all);
  return NULL;
}

static const sp_crowd *find_crowd(const sp_costs *c, const char *name) {
  for (size_t i = 0; name && i < c->n_crowds; i++)
    if (!strcmp(c->crowd[i].name, name)) return &c->crowd[i];
  return NULL;
}

/* What the pairs say of all together: that of the lane which feels most of the others. */
static double by_pairs(const sp_costs *c, const lanes *w, const part *p, size_t n) {
  double most = 0;
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
      const sp_shared *s = k == i ? NULL : find_pair(c, w->name[p[i].lane], w->name[p[k].lane]);
      sum += s ? s->share : 0;
    }
    most = fmax(most, sum);
  }
  return 1 + most;
}

static int keep_crowd(sp_costs *c, char *name, double extra, sp_err *err) {
  if (!sp_grow(&c->crowd, &c->cap_crowds, c->n_crowds + 1, sizeof *c->crowd)) {
    free(name);
    return sp_nomem(err, sizeof *c->crowd, "measurements");
  }
  c->crowd[c->n_crowds++] = (sp_crowd){name, extra};
  return SP_OK;
}

/* Leaves of all parts what they may do at the same time; false: that is too little to tell of the whole. */
static bool keep_all_apart(part *p, size_t n, const sp_costs *c) {
  double all = 0, left = 0;
  for (size_t i = 0; i < n; i++) all += row_seconds(c, &p[i].r);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < i; k++) keep_apart(&p[i].r, &p[k].r, c);
  for (size_t i = 0; i < n; i++) left += row_seconds(c, &p[i].r);
  return left > 0.7 * all;
}

/* Two may find room for both where there is none for eight: all lanes that matter together, if they are more than two. */
static int measure_crowd(sp_loop *l, uint64_t newest, double budget, sp_costs *c, const lanes *w, sp_err *err) {
  const sp_program *p = l->m->p;
  bool *in = sp_calloc(p->n_lanes + 1, sizeof *in);
  part *parts = sp_calloc(p->n_lanes + 1, sizeof *parts);
  double times = 1, others = 1;
  size_t n = 0;
  int st = in && parts ? SP_OK : sp_nomem(err, p->n_lanes * sizeof *parts, "measurements");
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    if (!(in[i] = matters(w, i))) continue;
    st = open_part(&parts[n], l, i, newest, err);
    if (!st && parts[n].r.n) n++;
    else close_row(&parts[n].r);
  }
  char *name = !st && n > 2 && keep_all_apart(parts, n, c) ? name_of_crowd(p, w->name, in) : NULL;
  if (name && !find_crowd(c, name)) {
    set_runs(parts, n, c);
    for (size_t i = 0; i < n; i++) record_row(&parts[i].r);
    st = time_parts(parts, n, c, budget, &times, &others, err);
    double extra = (times - by_pairs(c, w, parts, n)) / (double)(n - 1);
    if (!st) st = keep_crowd(c, name, extra < NOISE ? 0 : extra, err), name = NULL;
  }
  free(name);
  for (size_t i = 0; parts && i < p->n_lanes; i++) close_row(&parts[i].r);
  free(parts);
  free(in);
  return st;
}

static int measure_lanes(sp_loop *l, uint64_t newest, double budget, sp_costs *c, lanes *w, sp_err *err) {
  const sp_program *p = l->m->p;
  size_t used = 0;
  int st = SP_OK;
  for (size_t i = 0; i < p->n_lanes; i++) used += works(p, i);
  double each = budget / (double)(used + 3 * used * (used - 1) / 2 + used + 1);
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    if (!works(p, i)) continue;
    if (!(w->name[i] = name_of_lane(p, i))) return sp_nomem(err, 64, "measurements");
    st = measure_lane(l, i, newest, each, c, w, err);
    if (w->alone[i] > w->most) w->most = w->alone[i];
  }
  for (size_t i = 0; i < p->n_lanes && !st; i++)
    for (size_t k = 0; k < i && !st; k++)
      if (matters(w, i) && matters(w, k)) st = measure_pair(l, k, i, newest, 3 * each, c, w, err);
  return st ? st : measure_crowd(l, newest, (double)(used + 1) * each, c, w, err);
}

int sp_measure(sp_loop *l, uint64_t last, double seconds, sp_costs *c, sp_err *err) {
  const sp_program *p = l->m->p;
  uint64_t newest = full_step(l, last);
  size_t unknown = 0;
  int st = SP_OK;
  for (size_t i = 0; i < p->n_tasks; i++) unknown += is_work(p, &p->tasks[i]) && !find_task(c, &p->tasks[i]);
  for (size_t i = 0; i < p->n_tasks && !st; i++)
    if (is_work(p, &p->tasks[i]) && !find_task(c, &p->tasks[i]))
      st = measure_task(l, &p->tasks[i], newest, 0.5 * seconds / (double)unknown, c, err);
  lanes w = {.name = sp_calloc(p->n_lanes + 1, sizeof *w.name), .alone = sp_calloc(p->n_lanes + 1, sizeof *w.alone)};
  if (!st && (!w.name || !w.alone)) st = sp_nomem(err, p->n_lanes * sizeof *w.name, "measurements");
  if (!st) st = measure_lanes(l, newest, 0.5 * seconds, c, &w, err);
  free_lanes(p, &w);
  return st;
}

/* ---- what is known of a program ---------------------------------------------------------------------------------- */

/* Of a copy that this strategy alone has: as others like it. */
static sp_cost like(const sp_costs *c, const sp_task *t) {
  sp_cost sum = {0};
  double n = 0;
  const sp_cost *known = find_task(c, t);
  if (known) return *known;
  for (size_t i = 0; i < c->n_tasks && is_plain(t); i++) {
    if (!c->task[i].plain) continue;
    sum.seconds += c->task[i].seconds;
    sum.submit += c->task[i].submit;
    n++;
  }
  if (n > 0) sum.seconds /= n, sum.submit /= n;
  return sum;
}

/* A lane as a whole may be shorter or longer than its calls one by one. */
static void scale_lane(const sp_program *p, size_t lane, double seconds, double *cost) {
  double sum = 0;
  for (size_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].lane == (int)lane) sum += cost[i];
  for (size_t i = 0; i < p->n_tasks && sum > 0 && seconds > 0; i++)
    if (p->tasks[i].lane == (int)lane) cost[i] *= seconds / sum;
}

/* Of lanes that were measured two by two; with what all of them together have beyond that. */
static void put_shares(const sp_costs *c, const sp_program *p, char *const *name, bool *in, double *share) {
  for (size_t i = 0; i < p->n_lanes; i++)
    for (size_t k = 0; k < p->n_lanes; k++) {
      const sp_shared *s = i != k && name[i] && name[k] ? find_pair(c, name[i], name[k]) : NULL;
      share[i * p->n_lanes + k] = s ? s->share : NAN;
      in[i] = in[i] || s;
    }
  char *all = name_of_crowd(p, name, in);
  const sp_crowd *crowd = find_crowd(c, all);
  for (size_t i = 0; crowd && i < p->n_lanes * p->n_lanes; i++) share[i] += crowd->extra; /* NaN stays */
  free(all);
}

int sp_costs_of(const sp_costs *c, const sp_program *p, double *cost, double *submit, double *share, sp_err *err) {
  char **name = sp_calloc(p->n_lanes + 1, sizeof *name);
  bool *in = sp_calloc(p->n_lanes + 1, sizeof *in);
  int st = name && in ? SP_OK : sp_nomem(err, p->n_lanes * sizeof *name, "measurements");
  for (size_t i = 0; i < p->n_tasks; i++) {
    sp_cost k = is_work(p, &p->tasks[i]) ? like(c, &p->tasks[i]) : (sp_cost){0};
    cost[i] = k.seconds;
    submit[i] = k.submit;
  }
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    if (!works(p, i)) continue;
    if (!(name[i] = name_of_lane(p, i))) st = sp_nomem(err, 64, "measurements");
    const sp_cost *known = st ? NULL : find(c->lane, c->n_lanes, name[i]);
    if (known) scale_lane(p, i, known->seconds, cost);
  }
  if (!st) put_shares(c, p, name, in, share);
  for (size_t i = 0; name && i < p->n_lanes; i++) free(name[i]);
  free(name);
  free(in);
  return st;
}
