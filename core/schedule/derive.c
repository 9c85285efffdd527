/* SPDX-License-Identifier: MIT
 * derive.c - derives slots, submission order, waits and event rings from tasks, lanes and delays. */
#include "schedule/schedule.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

typedef struct user {
  int task, mode;
} user;

/* A wait on its way. One that is not exact may, at some steps, wait for a later run than the conflict asks for. */
typedef struct dep {
  int task, back;
  bool exact, needed;
} dep;

typedef struct work {
  const sp_sched_input *in;
  sp_schedule *out;
  size_t *first; /* per resource: its users in `users`, in task order; first[n_resources] is the end */
  user *users;
  int *key;  /* [target][source]: 2 * back + (not exact), or -1 */
  dep *deps; /* grouped by target */
  size_t *dep_first;
  int max_back;
} work;

/* The last run of t at or before step, or -1. */
static int run_before(const sp_sched_task *t, int step) {
  if (step < t->phase) return -1;
  return step - (step - t->phase) % t->every;
}

/* ---- slots and order --------------------------------------------------------------------------------------------- */

static int collect_users(work *w, sp_err *err) {
  const sp_sched_input *in = w->in;
  size_t total = 0;
  w->first = sp_calloc(in->n_resources + 2, sizeof *w->first);
  if (!w->first) return sp_nomem(err, in->n_resources * sizeof *w->first, "the schedule");
  for (size_t i = 0; i < in->n_tasks; i++) total += in->tasks[i].n_acc;
  w->users = sp_calloc(total + 1, sizeof *w->users);
  size_t *fill = sp_calloc(in->n_resources + 1, sizeof *fill);
  size_t *end = sp_calloc(in->n_resources + 1, sizeof *end);
  if (!w->users || !fill || !end) {
    free(fill);
    free(end);
    return sp_nomem(err, total * sizeof *w->users, "the schedule");
  }
  for (size_t i = 0; i < in->n_tasks; i++)
    for (size_t a = 0; a < in->tasks[i].n_acc; a++) end[in->tasks[i].acc[a].resource]++;
  for (size_t r = 0, at = 0; r < in->n_resources; r++) {
    fill[r] = w->first[r] = at;
    at += end[r];
  }
  for (size_t i = 0; i < in->n_tasks; i++) {
    for (size_t a = 0; a < in->tasks[i].n_acc; a++) {
      const sp_sched_access *acc = &in->tasks[i].acc[a];
      size_t *f = &fill[acc->resource];
      if (*f > w->first[acc->resource] && w->users[*f - 1].task == (int)i) w->users[*f - 1].mode |= acc->mode;
      else w->users[(*f)++] = (user){(int)i, acc->mode};
    }
  }
  size_t at = 0; /* a task that names a resource twice leaves a gap: close it */
  for (size_t r = 0; r < in->n_resources; r++) {
    size_t n = fill[r] - w->first[r];
    memmove(w->users + at, w->users + w->first[r], n * sizeof *w->users);
    w->first[r] = at;
    at += n;
  }
  w->first[in->n_resources] = at;
  free(fill);
  free(end);
  return SP_OK;
}

/* The first to touch r in a step; NULL: nobody does. */
static const user *first_in(const work *w, size_t r, int step) {
  for (const user *u = w->users + w->first[r], *end = w->users + w->first[r + 1]; u < end; u++) {
    const sp_sched_task *t = &w->in->tasks[u->task];
    if (step % t->every == t->phase) return u;
  }
  return NULL;
}

/* Does every run that touches r find a value written earlier in the same step (or write it)? If not, the value of
 * another step is part of the program's meaning, and the number of slots would change it. */
static bool carries(const work *w, size_t r) {
  int64_t period = 1;
  for (const user *u = w->users + w->first[r], *end = w->users + w->first[r + 1]; u < end; u++) {
    int every = w->in->tasks[u->task].every;
    period = period / sp_gcd((int)period, every) * every;
    if (period > SP_SCHED_MAX_SLOTS) return true; /* sp_schedule_span refuses it */
  }
  for (int step = 0; step < period; step++) {
    const user *u = first_in(w, r, step);
    if (u && u->mode != SP_WRITE) return true;
  }
  return false;
}

typedef struct member {
  int group, resource;
} member;

static int by_group(const void *a, const void *b) {
  const member *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return x->resource - y->resource;
}

static int equalise_groups(work *w, sp_err *err) {
  const sp_sched_input *in = w->in;
  member *m = sp_calloc(in->n_resources + 1, sizeof *m);
  if (!m) return sp_nomem(err, in->n_resources * sizeof *m, "the schedule");
  size_t n = 0;
  for (size_t r = 0; r < in->n_resources; r++)
    if (in->resources[r].group) m[n++] = (member){in->resources[r].group, (int)r};
  qsort(m, n, sizeof *m, by_group);
  int st = SP_OK;
  for (size_t i = 0, j; i < n && !st; i = j) {
    int fixed = -1, slots = 1;
    for (j = i; j < n && m[j].group == m[i].group; j++) {
      int r = m[j].resource, s = w->out->slots[r];
      if (s > slots) slots = s;
      if (!in->resources[r].slots && !carries(w, (size_t)r)) continue;
      if (fixed >= 0 && w->out->slots[fixed] != s) {
        st = sp_fail(err, SP_E_INVALID,
                     "schedule: '%s' (%d slots) and '%s' (%d slots) share one group: give them one number",
                     in->resources[fixed].name, w->out->slots[fixed], in->resources[r].name, s);
        break;
      }
      fixed = r;
    }
    if (fixed >= 0) slots = w->out->slots[fixed];
    for (size_t k = i; k < j; k++) w->out->slots[m[k].resource] = slots;
  }
  free(m);
  return st;
}

static int derive_slots(work *w, sp_err *err) {
  for (size_t r = 0; r < w->in->n_resources; r++) {
    const sp_sched_resource *res = &w->in->resources[r];
    int n = res->slots;
    if (!n && carries(w, r)) n = 1;
    if (!n) {
      n = 1;
      for (size_t u = w->first[r]; u < w->first[r + 1]; u++) {
        int lead = w->out->delay[w->users[u].task] - w->out->delay[w->users[w->first[r]].task];
        if (lead + 1 > n) n = lead + 1;
      }
      n += res->extra;
    }
    if (n > SP_SCHED_MAX_SLOTS)
      return sp_fail(err, SP_E_RANGE, "schedule: '%s' would need %d slots, at most %d: use smaller delays", res->name,
                     n, SP_SCHED_MAX_SLOTS);
    w->out->slots[r] = n;
  }
  return equalise_groups(w, err);
}

static void order_tasks(work *w) {
  size_t n = 0;
  for (int d = w->out->depth; d >= 0; d--)
    for (size_t i = 0; i < w->in->n_tasks; i++)
      if (w->out->delay[i] == d) w->out->order[n++] = (int)i;
}

/* ---- dependencies ------------------------------------------------------------------------------------------------ */

/* How many steps before y the nearest run of x on the same slot lies, over all steps; -1: they never meet. */
static int nearest_back(const sp_sched_task *x, const sp_sched_task *y, int slots, bool same_step) {
  int g = sp_gcd(x->every, y->every), h = sp_gcd(slots % g, g);
  int want = ((y->phase - x->phase) % g + g) % g;
  if (h == 0) h = g;
  if (want % h) return -1;
  for (int j = same_step ? 0 : 1;; j++)
    if ((int64_t)j * slots % g == want) return j * slots;
}

static const char *asked(const work *w, const sp_sched_task *t) {
  const sp_sched_lane *lane = &w->in->lanes[t->lane];
  return lane->asked ? lane->asked : lane->name;
}

static int refuse(const work *w, size_t r, const user *x, const user *y, int back, sp_err *err) {
  const sp_sched_task *tx = &w->in->tasks[x->task], *ty = &w->in->tasks[y->task];
  int dx = w->out->delay[x->task] - w->in->shift, dy = w->out->delay[y->task] - w->in->shift, slots = w->out->slots[r];
  const char *lx = w->in->lanes[tx->lane].name, *ly = w->in->lanes[ty->lane].name, *res = w->in->resources[r].name;
  if (back == 0)
    return sp_fail(err, SP_E_RACE,
                   "'%s' (lane '%s', delay %d) needs '%s' (lane '%s', delay %d) of the same step, for '%s': "
                   "give lane '%s' a delay of at least %d",
                   ty->name, ly, dy, tx->name, lx, dx, res, asked(w, ty), dx);
  if (!(x->mode & SP_WRITE) && w->in->resources[r].slots > 1)
    return sp_fail(err, SP_E_RACE,
                   "'%s' (lane '%s', delay %d) would overwrite '%s' before '%s' (lane '%s', delay %d) of %d "
                   "steps before has read it: give it at least %d slots, or lane '%s' a delay of at least %d",
                   ty->name, ly, dy, res, tx->name, lx, dx, back, dx - dy, asked(w, ty), dx - back);
  return sp_fail(err, SP_E_RACE,
                 "'%s' (lane '%s', delay %d) comes after '%s' (lane '%s', delay %d) of %d step%s before, "
                 "which is submitted later; both use '%s' (%d slot%s): give lane '%s' a delay of at least %d",
                 ty->name, ly, dy, tx->name, lx, dx, back, back == 1 ? "" : "s", res, slots, slots == 1 ? "" : "s",
                 asked(w, ty), dx - back);
}

static int depend(work *w, size_t r, const user *x, const user *y, sp_err *err) {
  const sp_sched_task *tx = &w->in->tasks[x->task], *ty = &w->in->tasks[y->task];
  int back = nearest_back(tx, ty, w->out->slots[r], x->task < y->task);
  if (back < 0) return SP_OK;
  /* x of step s - back is submitted at tick s - back + delay(x), y of step s at s + delay(y); within a tick the older
   * step, and of one step the smaller task, comes first. So this one comparison is the whole question. */
  if (w->out->delay[x->task] - w->out->delay[y->task] > back) return refuse(w, r, x, y, back, err);
  if (tx->lane == ty->lane || w->in->lanes[tx->lane].host) return SP_OK;
  bool exact = w->out->slots[r] == 1 || tx->every == 1;
  int key = 2 * back + !exact, *k = &w->key[(size_t)y->task * w->in->n_tasks + (size_t)x->task];
  if (*k < 0 || key < *k) *k = key;
  return SP_OK;
}

static bool is_host(const work *w, const user *u) { return w->in->lanes[w->in->tasks[u->task].lane].host; }

/* All pairs of users of a resource, those of one step or of two. A refusal that names the host is kept only where there
 * is no other: nobody gives the host a delay. */
static int find_pairs(work *w, bool later, sp_err *err) {
  int kept = SP_OK;
  for (size_t r = 0; r < w->in->n_resources; r++)
    for (size_t i = w->first[r]; i < w->first[r + 1]; i++)
      for (size_t j = i + 1; j < w->first[r + 1]; j++) {
        const user *a = &w->users[i], *b = &w->users[j];
        sp_err here = {0};
        if (!((a->mode | b->mode) & SP_WRITE)) continue;
        int status = later ? depend(w, r, b, a, &here) : depend(w, r, a, b, &here);
        bool host = status && (is_host(w, a) || is_host(w, b));
        if (status && !(host && kept)) *err = here;
        if (status && !host) return status;
        if (!kept) kept = status;
      }
  return kept;
}

/* Pairs of one step first: they give the message that says most. */
static int find_deps(work *w, sp_err *err) {
  size_t n = w->in->n_tasks;
  w->key = sp_calloc(n * n + 1, sizeof *w->key);
  w->dep_first = sp_calloc(n + 1, sizeof *w->dep_first);
  if (!w->key || !w->dep_first) return sp_nomem(err, n * n * sizeof *w->key, "the schedule");
  for (size_t i = 0; i < n * n; i++) w->key[i] = -1;
  for (int later = 0; later < 2; later++) {
    int status = find_pairs(w, later, err);
    if (status) return status;
  }
  size_t count = 0;
  for (size_t i = 0; i < n * n; i++) count += w->key[i] >= 0;
  w->deps = sp_calloc(count + 1, sizeof *w->deps);
  if (!w->deps) return sp_nomem(err, count * sizeof *w->deps, "the schedule");
  count = 0;
  for (size_t y = 0; y < n; y++) {
    w->dep_first[y] = count;
    for (size_t x = 0; x < n; x++) {
      int key = w->key[y * n + x];
      if (key < 0) continue;
      if (key / 2 > w->max_back) w->max_back = key / 2;
      w->deps[count++] = (dep){(int)x, key / 2, key % 2 == 0, false};
    }
  }
  w->dep_first[n] = count;
  w->out->n_derived = count;
  return SP_OK;
}

/* ---- leaving out what is implied --------------------------------------------------------------------------------- */

typedef struct clocks {
  size_t lanes, tasks, window;
  int *run;   /* [step % window][task][lane] */
  int *lane;  /* [lane][lane]: of the last task submitted to it */
  int *known; /* [step % window][lane]: what the host has learnt in steps up to this one */
  int *count; /* [lane] */
  int *best, *second, *owner;
} clocks;

static void clocks_free(clocks *c) {
  free(c->run);
  free(c->lane);
  free(c->known);
  free(c->count);
}

static int clocks_new(clocks *c, const work *w, int max_every, sp_err *err) {
  memset(c, 0, sizeof *c);
  c->lanes = w->in->n_lanes;
  c->tasks = w->in->n_tasks;
  c->window = (size_t)(w->out->depth + w->max_back + max_every + 2);
  size_t n = c->window * c->tasks * c->lanes;
  if (n > SP_SCHED_MAX_CELLS)
    return sp_fail(
        err, SP_E_RANGE,
        "schedule: %zu tasks on %zu lanes over %zu steps are too many to prove: use fewer lanes or smaller delays",
        c->tasks, c->lanes, c->window);
  c->run = sp_calloc(n + 1, sizeof *c->run);
  c->lane = sp_calloc(c->lanes * c->lanes + 1, sizeof *c->lane);
  c->known = sp_calloc(c->window * c->lanes + 1, sizeof *c->known);
  c->count = sp_calloc(4 * c->lanes + 1, sizeof *c->count);
  if (!c->run || !c->lane || !c->known || !c->count) {
    clocks_free(c);
    return sp_nomem(err, n * sizeof *c->run, "the schedule");
  }
  c->best = c->count + c->lanes;
  c->second = c->best + c->lanes;
  c->owner = c->second + c->lanes;
  return SP_OK;
}

static int *clock_of(const clocks *c, int task, int step) {
  return c->run + ((size_t)step % c->window * c->tasks + (size_t)task) * c->lanes;
}

static int *known_at(const clocks *c, int step) { return c->known + (size_t)step % c->window * c->lanes; }

/* One run of y. A wait is needed here when neither the lane's past, nor the host, nor the other waits together imply
 * it. */
static void mark_run(work *w, clocks *c, int y, int step, int tick) {
  const sp_sched_task *tasks = w->in->tasks;
  size_t lane = (size_t)tasks[y].lane;
  bool host = w->in->lanes[lane].host;
  for (size_t l = 0; l < c->lanes; l++) {
    int k = known_at(c, step)[l], p = host ? 0 : c->lane[lane * c->lanes + l];
    c->best[l] = c->second[l] = k > p ? k : p;
    c->owner[l] = -1;
  }
  size_t begin = w->dep_first[y], end = w->dep_first[y + 1];
  for (size_t i = begin; i < end; i++) {
    int r = run_before(&tasks[w->deps[i].task], step - w->deps[i].back);
    if (r < 0) continue;
    const int *src = clock_of(c, w->deps[i].task, r);
    for (size_t l = 0; l < c->lanes; l++) {
      if (src[l] > c->best[l]) {
        c->second[l] = c->best[l];
        c->best[l] = src[l];
        c->owner[l] = (int)(i - begin);
      } else if (src[l] > c->second[l]) c->second[l] = src[l];
    }
  }
  for (size_t i = begin; i < end; i++) {
    int x = w->deps[i].task, lx = tasks[x].lane, r = run_before(&tasks[x], step - w->deps[i].back);
    if (r < 0) continue;
    int others = c->owner[lx] == (int)(i - begin) ? c->second[lx] : c->best[lx];
    if (others < clock_of(c, x, r)[lx]) w->deps[i].needed = true;
  }
  if (!host) c->best[lane] = ++c->count[lane];
  memcpy(clock_of(c, y, step), c->best, c->lanes * sizeof *c->best);
  if (!host) memcpy(c->lane + lane * c->lanes, c->best, c->lanes * sizeof *c->best);
  else
    for (int s = step; s <= tick; s++)
      for (size_t l = 0; l < c->lanes; l++)
        if (c->best[l] > known_at(c, s)[l]) known_at(c, s)[l] = c->best[l];
}

/* Plays the schedule with all waits. The runs form an acyclic graph, so those waits of which every instance is implied
 * by other paths can go all at once: what remains reaches the same, and no wait of it is implied by the rest. */
static int mark_needed(work *w, sp_err *err) {
  const sp_sched_input *in = w->in;
  int period, span, max_every = 1;
  int st = sp_schedule_span(in, w->out->slots, &period, &span, err);
  if (st) return st;
  for (size_t i = 0; i < in->n_tasks; i++)
    if (in->tasks[i].every > max_every) max_every = in->tasks[i].every;
  clocks c;
  if ((st = clocks_new(&c, w, max_every, err))) return st;
  int ticks = w->max_back + 2 * period + w->out->depth + 1;
  for (int t = 0; t < ticks; t++) {
    if (t > 0) memcpy(known_at(&c, t), known_at(&c, t - 1), c.lanes * sizeof *c.known);
    for (size_t k = 0; k < in->n_tasks; k++) {
      int y = w->out->order[k], s = t - w->out->delay[y];
      if (s >= 0 && run_before(&in->tasks[y], s) == s) mark_run(w, &c, y, s, t);
    }
  }
  clocks_free(&c);
  return SP_OK;
}

/* Most runs of x that are submitted from the one y waits for to the wait itself, over all steps. */
static int ring_for(const work *w, int y, const sp_sched_wait *wait) {
  const sp_sched_task *tx = &w->in->tasks[wait->task], *ty = &w->in->tasks[y];
  int dx = w->out->delay[wait->task], dy = w->out->delay[y];
  bool first = dx != dy ? dx > dy : wait->task < y; /* x comes before y within a tick */
  int len = dy - dx + wait->back - !first;          /* steps of x after step s - back that are submitted before y's */
  if (len < 0) return 1;
  int runs = len / tx->every, rest = len % tx->every, g = sp_gcd(tx->every, ty->every);
  int at = ((tx->phase + wait->back - ty->phase - 1) % g + g) % g + 1; /* distance to the first run after s - back */
  /* Where no run lies at s - back itself, the run waited for is older, but no run lies between. */
  return runs + (at <= rest) + 1;
}

/* An event that a thread of another place waits for may be recorded again only when that thread is known to have
 * passed: when the host knows that the step of the call that waits is done. */
static int ring_of(const work *w, int y, const sp_sched_wait *wait) {
  const sp_sched_lane *to = &w->in->lanes[w->in->tasks[y].lane];
  const sp_sched_lane *from = &w->in->lanes[w->in->tasks[wait->task].lane];
  int ring = ring_for(w, y, wait), late = w->in->in_flight + wait->back + 1;
  return !to->host && to->place != from->place && late > ring ? late : ring;
}

static void set_rings(work *w) {
  sp_schedule *o = w->out;
  for (size_t i = 0; i < o->n_items; i++) o->items[i].record = false, o->items[i].ring = 0;
  o->n_waits = 0;
  for (size_t y = 0; y < o->n_items; y++)
    for (size_t i = 0; i < o->items[y].n_waits; i++) {
      sp_sched_item *src = &o->items[o->items[y].waits[i].task];
      int ring = ring_of(w, (int)y, &o->items[y].waits[i]);
      src->record = true;
      if (ring > src->ring) src->ring = ring;
      o->n_waits++;
    }
}

/* Waits that are not exact: whether the rest implies all that is really asked for, only the proof can say. */
static void drop_inexact(work *w) {
  const sp_schedule *o = w->out;
  for (size_t y = 0; y < o->n_items; y++) {
    sp_sched_item *it = &o->items[y];
    for (size_t i = it->n_waits; i-- > 0;) {
      sp_sched_wait keep = it->waits[i];
      if (w->key[y * o->n_items + (size_t)keep.task] % 2 == 0) continue;
      size_t rest = it->n_waits - i - 1;
      sp_err ignored;
      memmove(it->waits + i, it->waits + i + 1, rest * sizeof keep);
      it->n_waits--;
      if (sp_schedule_prove(o, w->in, &ignored) == SP_OK) {
        it->implied[it->n_implied++] = keep;
        continue;
      }
      memmove(it->waits + i + 1, it->waits + i, rest * sizeof keep);
      it->waits[i] = keep;
      it->n_waits++;
    }
  }
}

/* Either list may have to take all of them. */
static int split_deps(work *w, size_t y, sp_err *err) {
  sp_sched_item *it = &w->out->items[y];
  size_t begin = w->dep_first[y], end = w->dep_first[y + 1];
  it->waits = sp_calloc(end - begin + 1, sizeof *it->waits);
  it->implied = sp_calloc(end - begin + 1, sizeof *it->implied);
  if (!it->waits || !it->implied) return sp_nomem(err, (end - begin) * sizeof *it->waits, "the schedule");
  for (size_t i = begin; i < end; i++) {
    sp_sched_wait wait = {w->deps[i].task, w->deps[i].back};
    if (w->deps[i].needed) it->waits[it->n_waits++] = wait;
    else it->implied[it->n_implied++] = wait;
  }
  return SP_OK;
}

static int keep_needed(work *w, sp_err *err) {
  int st = mark_needed(w, err);
  if (st) return st;
  for (size_t y = 0; y < w->in->n_tasks && !st; y++) st = split_deps(w, y, err);
  if (st) return st;
  set_rings(w);
  drop_inexact(w);
  set_rings(w);
  return SP_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int derive(work *w, sp_err *err) {
  const sp_sched_input *in = w->in;
  sp_schedule *o = w->out;
  int st = sp_schedule_check(in, err);
  if (st) return st;
  o->n_items = in->n_tasks;
  o->n_resources = in->n_resources;
  o->items = sp_calloc(in->n_tasks + 1, sizeof *o->items);
  o->order = sp_calloc(in->n_tasks + 1, sizeof *o->order);
  o->delay = sp_calloc(in->n_tasks + 1, sizeof *o->delay);
  o->slots = sp_calloc(in->n_resources + 1, sizeof *o->slots);
  if (!o->items || !o->order || !o->delay || !o->slots)
    return sp_nomem(err, in->n_tasks * sizeof *o->items, "the schedule");
  for (size_t i = 0; i < in->n_tasks; i++) {
    o->delay[i] = in->tasks[i].delay >= 0 ? in->tasks[i].delay : in->lanes[in->tasks[i].lane].delay;
    if (o->delay[i] > o->depth) o->depth = o->delay[i];
  }
  order_tasks(w);
  if ((st = collect_users(w, err)) || (st = derive_slots(w, err))) return st;
  int period, span;
  if ((st = sp_schedule_span(in, o->slots, &period, &span, err))) return st;
  if ((st = find_deps(w, err)) || (st = keep_needed(w, err))) return st;
  return sp_schedule_prove(o, in, err);
}

int sp_schedule_derive(sp_schedule *out, const sp_sched_input *in, sp_err *err) {
  work w = {.in = in, .out = out};
  memset(out, 0, sizeof *out);
  int st = derive(&w, err);
  free(w.first);
  free(w.users);
  free(w.key);
  free(w.deps);
  free(w.dep_first);
  if (st) sp_schedule_free(out);
  return st;
}

void sp_schedule_free(sp_schedule *s) {
  for (size_t i = 0; s->items && i < s->n_items; i++) {
    free(s->items[i].waits);
    free(s->items[i].implied);
  }
  free(s->items);
  free(s->order);
  free(s->delay);
  free(s->slots);
  memset(s, 0, sizeof *s);
}
