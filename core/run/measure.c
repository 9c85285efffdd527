/* SPDX-License-Identifier: MIT
 * measure.c - which calls, lanes, pairs of lanes and crowds of them are timed, and within how many seconds. */
#include "run/measure.h"

#include <math.h>
#include <stdlib.h>

#include "run/rows.h"

#define NOISE 0.03   /* a share that is taken as none */
#define MATTERS 0.05 /* of the longest lane's work: what has less is in nobody's way */

static int measure_task(sp_loop *l, const sp_task *t, uint64_t newest, double budget, sp_costs *c, sp_err *err) {
  sp_row r;
  sp_cost cost = {.plain = sp_task_is_plain(t)};
  int st = sp_row_open(&r, l, (size_t)t->lane, t, newest, err);
  if (st) return st;
  sp_row_record(&r);
  if (r.n) st = sp_row_time(&r, budget, &cost, err);
  if (!st && r.graph) {
    c->launch = c->launch > 0 ? fmin(c->launch, cost.submit) : cost.submit;
    st = sp_row_time_submit(&r, budget, &cost, err);
  }
  if (!st) st = sp_costs_keep_task(c, t->name, cost, err);
  sp_row_close(&r);
  return st;
}

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

static int measure_lane(sp_loop *l, size_t lane, uint64_t newest, double budget, sp_costs *c, lanes *w, sp_err *err) {
  const sp_cost *known = sp_costs_lane(c, w->name[lane]);
  sp_cost cost = {0};
  sp_row r;
  if (known) {
    w->alone[lane] = known->seconds;
    return SP_OK;
  }
  int st = sp_row_open(&r, l, lane, NULL, newest, err);
  if (st) return st;
  cost.seconds = sp_row_seconds(c, &r);
  if (r.n > 1 && cost.seconds < fmax(budget, SP_ROWS_SOON / 4)) {
    sp_row_record(&r);
    st = sp_row_time(&r, budget, &cost, err);
  }
  sp_row_close(&r);
  w->alone[lane] = cost.seconds;
  return st ? st : sp_costs_keep_lane(c, w->name[lane], cost.seconds, err);
}

static bool matters(const lanes *w, size_t lane) { return w->name[lane] && w->alone[lane] > MATTERS * w->most; }

static int measure_pair(sp_loop *l, size_t i, size_t k, uint64_t newest, double budget, sp_costs *c, const lanes *w,
                        sp_err *err) {
  sp_row r[2] = {0};
  double times = 1, others = 1;
  if (sp_costs_pair(c, w->name[i], w->name[k])) return SP_OK;
  int st = sp_row_open(&r[0], l, i, NULL, newest, err);
  if (!st) st = sp_row_open(&r[1], l, k, NULL, newest, err);
  if (!st) sp_rows_keep_apart(&r[0], &r[1], c);
  bool both = !st && r[0].n && r[1].n;
  for (size_t x = 0; x < 2 && both; x++) sp_row_record(&r[x]);
  if (both) st = sp_rows_time(r, 2, c, budget, &times, &others, err);
  double share = fmin(2, (times - 1) / fmax(others, 1e-9));
  if (both && !st) st = sp_costs_keep_pair(c, w->name[i], w->name[k], share < NOISE ? 0 : share, err);
  sp_row_close(&r[0]);
  sp_row_close(&r[1]);
  return st;
}

/* What the pairs say of all together: that of the lane which feels most of the others. */
static double by_pairs(const sp_costs *c, const lanes *w, const sp_row *r, size_t n) {
  double most = 0;
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
      const sp_shared *s = k == i ? NULL : sp_costs_pair(c, w->name[r[i].lane], w->name[r[k].lane]);
      sum += s ? s->share : 0;
    }
    most = fmax(most, sum);
  }
  return 1 + most;
}

/* Leaves of all rows what they may do at the same time; false: that is too little to tell of the whole. */
static bool keep_all_apart(sp_row *r, size_t n, const sp_costs *c) {
  double all = 0, left = 0;
  for (size_t i = 0; i < n; i++) all += sp_row_seconds(c, &r[i]);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < i; k++) sp_rows_keep_apart(&r[i], &r[k], c);
  for (size_t i = 0; i < n; i++) left += sp_row_seconds(c, &r[i]);
  return left > 0.7 * all;
}

/* Two may find room for both where there is none for eight: all lanes that matter together,
 * if they are more than two. */
static int measure_crowd(sp_loop *l, uint64_t newest, double budget, sp_costs *c, const lanes *w, sp_err *err) {
  const sp_program *p = l->m->p;
  bool *in = sp_calloc(p->n_lanes + 1, sizeof *in);
  sp_row *rows = sp_calloc(p->n_lanes + 1, sizeof *rows);
  double times = 1, others = 1;
  size_t n = 0;
  int st = in && rows ? SP_OK : sp_nomem(err, p->n_lanes * sizeof *rows, "measurements");
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    if (!(in[i] = matters(w, i))) continue;
    st = sp_row_open(&rows[n], l, i, NULL, newest, err);
    if (!st && rows[n].n) n++;
    else sp_row_close(&rows[n]);
  }
  char *name = !st && n > 2 && keep_all_apart(rows, n, c) ? sp_name_of_crowd(p, w->name, in) : NULL;
  if (name && !sp_costs_crowd(c, name)) {
    for (size_t i = 0; i < n; i++) sp_row_record(&rows[i]);
    st = sp_rows_time(rows, n, c, budget, &times, &others, err);
    double extra = (times - by_pairs(c, w, rows, n)) / (double)(n - 1);
    if (!st) st = sp_costs_keep_crowd(c, name, extra < NOISE ? 0 : extra, err), name = NULL;
  }
  free(name);
  for (size_t i = 0; rows && i < p->n_lanes; i++) sp_row_close(&rows[i]);
  free(rows);
  free(in);
  return st;
}

static int measure_lanes(sp_loop *l, uint64_t newest, double budget, sp_costs *c, lanes *w, sp_err *err) {
  const sp_program *p = l->m->p;
  size_t used = 0;
  int st = SP_OK;
  for (size_t i = 0; i < p->n_lanes; i++) used += sp_lane_works(p, i);
  double each = budget / (double)(used + 3 * used * (used - 1) / 2 + used + 1);
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    if (!sp_lane_works(p, i)) continue;
    if (!(w->name[i] = sp_name_of_lane(p, i))) return sp_nomem(err, 64, "measurements");
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
  uint64_t newest = sp_row_full_step(l, last);
  size_t unknown = 0;
  int st = SP_OK;
  for (size_t i = 0; i < p->n_tasks; i++)
    unknown += sp_task_is_work(p, &p->tasks[i]) && !sp_costs_task(c, &p->tasks[i]);
  for (size_t i = 0; i < p->n_tasks && !st; i++)
    if (sp_task_is_work(p, &p->tasks[i]) && !sp_costs_task(c, &p->tasks[i]))
      st = measure_task(l, &p->tasks[i], newest, 0.5 * seconds / (double)unknown, c, err);
  lanes w = {.name = sp_calloc(p->n_lanes + 1, sizeof *w.name), .alone = sp_calloc(p->n_lanes + 1, sizeof *w.alone)};
  if (!st && (!w.name || !w.alone)) st = sp_nomem(err, p->n_lanes * sizeof *w.name, "measurements");
  if (!st) st = measure_lanes(l, newest, 0.5 * seconds, c, &w, err);
  free_lanes(p, &w);
  return st;
}
