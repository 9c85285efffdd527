/* SPDX-License-Identifier: MIT
 * measure.c - see measure.h. A call of a device that records is timed as a graph of it, as it is launched later: its time is
 * the device's, not that of the thread that submits. */
#include "run/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 3, MOST = 32 }; /* of which the median counts; most runs in a turn */
#define NOISE 0.03             /* a share that is taken as none */
#define MATTERS 0.05           /* of the longest lane's work: what has less is in nobody's way */
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
  free(c->pair);
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
  bool can = r->place == &r->l->m->g->main && r->l->m->g->border && d->flags & SP_DEVICE_CAPTURE && !r->l->m->g->sync;
  for (size_t i = 0; i < r->n; i++)
    can = can && (!r->task[i]->node || r->task[i]->node->inst->type->flags & SP_STAGE_CAPTURABLE);
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
  record_row(r);
  return SP_OK;
}

/* ---- alone ------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
  qsort(v, n, sizeof *v, by_size);
  return v[n / 2];
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
  double v[TURNS], submit[TURNS];
  int st = sp_place_event(r->place, SP_EVENT_TIMING, "a measurement", &e[0], err);
  if (!st) st = sp_place_event(r->place, SP_EVENT_TIMING, "a measurement", &e[1], err);
  if (!st) st = between(r, e, 1, &cost->seconds, &cost->submit, err);
  double left = budget - (st ? 0 : cost->seconds);
  int runs = (int)fmin(MOST, fmax(1, left / (TURNS + 1) / fmax(cost->seconds, 1e-7)));
  bool again = !st && left > TURNS * cost->seconds;
  for (int i = 0; i < TURNS && again && !st; i++) st = between(r, e, runs, &v[i], &submit[i], err);
  if (!st && again) cost->seconds = median(v, TURNS), cost->submit = median(submit, TURNS);
  for (int i = 0; i < 2; i++)
    if (e[i]) r->place->type->event_close(e[i]);
  return st;
}

static int measure_task(sp_loop *l, const sp_task *t, uint64_t newest, double budget, sp_costs *c, sp_err *err) {
  row r;
  sp_cost cost = {.plain = is_plain(t)};
  int st = open_row(&r, l, (size_t)t->lane, t, newest, err);
  if (st) return st;
  if (r.n) st = time_row(&r, budget, &cost, err);
  if (!st && r.graph) { /* the host's part of a call that is made by itself: the first was enough to know */
    void *graph = r.graph;
    double since;
    c->launch = c->launch > 0 ? 0.5 * (c->launch + cost.submit) : cost.submit;
    r.graph = NULL;
    since = sp_now();
    st = submit_row(&r, err);
    cost.submit = sp_now() - since;
    if (!st) st = sp_place_sync(r.place, r.stream, "a measurement", err);
    r.graph = graph;
  }
  if (!st) st = keep(&c->task, &c->n_tasks, &c->cap_tasks, t->name, cost, err);
  close_row(&r);
  return st;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

/* The host's seconds for so many runs of each, mixed; NULL: of one alone. */
static int clock_rows(const row *a, int na, const row *b, int nb, double *seconds, sp_err *err) {
  const row *both[2] = {a, b};
  int st = SP_OK;
  double since = sp_now();
  for (int i = 0, j = 0; (i < na || j < nb) && !st;) {
    bool first = j >= nb || (i < na && (long)i * nb <= (long)j * na);
    st = submit_row(first ? a : b, err);
    if (first) i++;
    else j++;
  }
  for (int k = 0; k < 2 && !st; k++)
    if (k ? nb : na) st = sp_place_sync(both[k]->place, both[k]->stream, "a measurement", err);
  *seconds = sp_now() - since;
  return st;
}

/* As long as the longer one, or how much longer, for each second of the shorter one. */
static int time_pair(const row *a, double ta, const row *b, double tb, double budget, double *share, sp_err *err) {
  double longest = fmax(fmax(ta, tb), LEAST), v[TURNS], x, y, both;
  int na = (int)fmax(1, longest / ta + 0.5), nb = (int)fmax(1, longest / tb + 0.5), n = 0, st = SP_OK;
  if (na > MOST * 32) na = MOST * 32;
  if (nb > MOST * 32) nb = MOST * 32;
  for (double spent = 0; n < TURNS && (!n || spent * (n + 1) / n < budget) && !st; n++) {
    if ((st = clock_rows(a, na, a, 0, &x, err)) || (st = clock_rows(b, 0, b, nb, &y, err)) ||
        (st = clock_rows(a, na, b, nb, &both, err)))
      break;
    v[n] = (both - fmax(x, y)) / fmax(fmin(x, y), 1e-9);
    spent += x + y + both;
  }
  if (!st) *share = fmin(2, median(v, (size_t)n));
  if (!st && *share < NOISE) *share = 0;
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
  if (r.n) st = time_row(&r, budget, &cost, err);
  close_row(&r);
  w->alone[lane] = cost.seconds;
  return st ? st : keep(&c->lane, &c->n_lanes, &c->cap_lanes, w->name[lane], cost, err);
}

static int measure_pair(sp_loop *l, size_t i, size_t k, uint64_t newest, double budget, sp_costs *c, const lanes *w,
                        sp_err *err) {
  row a, b = {0};
  double share = 0;
  if (find_pair(c, w->name[i], w->name[k])) return SP_OK;
  int st = open_row(&a, l, i, NULL, newest, err);
  if (st) return st;
  if (!(st = open_row(&b, l, k, NULL, newest, err)) && a.n && b.n)
    st = time_pair(&a, w->alone[i], &b, w->alone[k], budget, &share, err);
  if (!st && a.n && b.n) st = keep_pair(c, w->name[i], w->name[k], share, err);
  close_row(&a);
  close_row(&b);
  return st;
}

static bool matters(const lanes *w, size_t lane) { return w->name[lane] && w->alone[lane] > MATTERS * w->most; }

static int measure_lanes(sp_loop *l, uint64_t newest, double budget, sp_costs *c, lanes *w, sp_err *err) {
  const sp_program *p = l->m->p;
  size_t used = 0;
  int st = SP_OK;
  for (size_t i = 0; i < p->n_lanes; i++) used += works(p, i);
  double each = budget / (double)(used + 3 * used * (used - 1) / 2 + 1);
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    if (!works(p, i)) continue;
    if (!(w->name[i] = name_of_lane(p, i))) return sp_nomem(err, 64, "measurements");
    st = measure_lane(l, i, newest, each, c, w, err);
    if (w->alone[i] > w->most) w->most = w->alone[i];
  }
  for (size_t i = 0; i < p->n_lanes && !st; i++)
    for (size_t k = 0; k < i && !st; k++)
      if (matters(w, i) && matters(w, k)) st = measure_pair(l, k, i, newest, 3 * each, c, w, err);
  return st;
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

int sp_costs_of(const sp_costs *c, const sp_program *p, double *cost, double *submit, double *share, sp_err *err) {
  char **name = sp_calloc(p->n_lanes + 1, sizeof *name);
  int st = name ? SP_OK : sp_nomem(err, p->n_lanes * sizeof *name, "measurements");
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
  for (size_t i = 0; i < p->n_lanes && !st; i++)
    for (size_t k = 0; k < p->n_lanes; k++) {
      const sp_shared *s = i != k && name[i] && name[k] ? find_pair(c, name[i], name[k]) : NULL;
      share[i * p->n_lanes + k] = s ? s->share : NAN;
    }
  for (size_t i = 0; name && i < p->n_lanes; i++) free(name[i]);
  free(name);
  return st;
}
