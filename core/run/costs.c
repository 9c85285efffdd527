/* SPDX-License-Identifier: MIT
 * costs.c - what is known of calls and lanes by name: kept, found, and put together for a program. */
#include "run/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const sp_cost *sp_costs_lane(const sp_costs *c, const char *name) {
  for (size_t i = 0; i < c->n_lanes; i++)
    if (!strcmp(c->lane[i].name, name)) return &c->lane[i];
  return NULL;
}

/* The calls of a stage's replicas cost the same: "enc.forward (2 of 4)". */
static size_t stem(const char *name) {
  const char *end = strstr(name, " (");
  return end ? (size_t)(end - name) : strlen(name);
}

static bool equal(const char *a, const char *b) { return stem(a) == stem(b) && !strncmp(a, b, stem(a)); }

const sp_cost *sp_costs_task(const sp_costs *c, const sp_task *t) {
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

int sp_costs_keep_task(sp_costs *c, const char *name, sp_cost cost, sp_err *err) {
  return keep(&c->task, &c->n_tasks, &c->cap_tasks, name, cost, err);
}

int sp_costs_keep_lane(sp_costs *c, const char *name, double seconds, sp_err *err) {
  return keep(&c->lane, &c->n_lanes, &c->cap_lanes, name, (sp_cost){.seconds = seconds}, err);
}

const sp_shared *sp_costs_pair(const sp_costs *c, const char *a, const char *b) {
  for (size_t i = 0; i < c->n_pairs; i++) {
    const sp_shared *s = &c->pair[i];
    if ((!strcmp(s->a, a) && !strcmp(s->b, b)) || (!strcmp(s->a, b) && !strcmp(s->b, a))) return s;
  }
  return NULL;
}

int sp_costs_keep_pair(sp_costs *c, const char *a, const char *b, double share, sp_err *err) {
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

bool sp_task_is_work(const sp_program *p, const sp_task *t) {
  return !p->lanes[t->lane].host && (t->node || t->kind == SP_TASK_COPY);
}

bool sp_task_is_plain(const sp_task *t) { return !t->node && !t->moves; }

char *sp_name_of_lane(const sp_program *p, size_t lane) {
  sp_sb name = {0};
  for (size_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].lane == (int)lane && sp_task_is_work(p, &p->tasks[i]) && !sp_task_is_plain(&p->tasks[i]))
      sp_sb_putf(&name, "%s%.*s", name.n ? " " : "", (int)stem(p->tasks[i].name), p->tasks[i].name);
  if (!name.n) sp_sb_put(&name, "copies");
  if (!name.broken) return name.s;
  sp_sb_free(&name);
  return NULL;
}

bool sp_lane_works(const sp_program *p, size_t lane) {
  for (size_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].lane == (int)lane && sp_task_is_work(p, &p->tasks[i])) return true;
  return false;
}

char *sp_name_of_crowd(const sp_program *p, char *const *name, const bool *in) {
  sp_sb all = {0};
  for (size_t i = 0; i < p->n_lanes; i++)
    if (in[i]) sp_sb_putf(&all, "%s%s", all.n ? " | " : "", name[i]);
  if (!all.broken && all.n) return all.s;
  sp_sb_free(&all);
  return NULL;
}

const sp_crowd *sp_costs_crowd(const sp_costs *c, const char *name) {
  for (size_t i = 0; name && i < c->n_crowds; i++)
    if (!strcmp(c->crowd[i].name, name)) return &c->crowd[i];
  return NULL;
}

int sp_costs_keep_crowd(sp_costs *c, char *name, double extra, sp_err *err) {
  if (!sp_grow(&c->crowd, &c->cap_crowds, c->n_crowds + 1, sizeof *c->crowd)) {
    free(name);
    return sp_nomem(err, sizeof *c->crowd, "measurements");
  }
  c->crowd[c->n_crowds++] = (sp_crowd){name, extra};
  return SP_OK;
}

/* ---- of a program ---- */
/* Of a copy that this strategy alone has: as others like it. */
static sp_cost like(const sp_costs *c, const sp_task *t) {
  sp_cost sum = {0};
  double n = 0;
  const sp_cost *known = sp_costs_task(c, t);
  if (known) return *known;
  for (size_t i = 0; i < c->n_tasks && sp_task_is_plain(t); i++) {
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
      const sp_shared *s = i != k && name[i] && name[k] ? sp_costs_pair(c, name[i], name[k]) : NULL;
      share[i * p->n_lanes + k] = s ? s->share : NAN;
      in[i] = in[i] || s;
    }
  char *all = sp_name_of_crowd(p, name, in);
  const sp_crowd *crowd = sp_costs_crowd(c, all);
  for (size_t i = 0; crowd && i < p->n_lanes * p->n_lanes; i++) share[i] += crowd->extra; /* NaN stays */
  free(all);
}

int sp_costs_of(const sp_costs *c, const sp_program *p, double *cost, double *submit, double *share, sp_err *err) {
  char **name = sp_calloc(p->n_lanes + 1, sizeof *name);
  bool *in = sp_calloc(p->n_lanes + 1, sizeof *in);
  int st = name && in ? SP_OK : sp_nomem(err, p->n_lanes * sizeof *name, "measurements");
  for (size_t i = 0; i < p->n_tasks; i++) {
    sp_cost k = sp_task_is_work(p, &p->tasks[i]) ? like(c, &p->tasks[i]) : (sp_cost){0};
    cost[i] = k.seconds;
    submit[i] = k.submit;
  }
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    if (!sp_lane_works(p, i)) continue;
    if (!(name[i] = sp_name_of_lane(p, i))) st = sp_nomem(err, 64, "measurements");
    const sp_cost *known = st ? NULL : sp_costs_lane(c, name[i]);
    if (known) scale_lane(p, i, known->seconds, cost);
  }
  if (!st) put_shares(c, p, name, in, share);
  for (size_t i = 0; name && i < p->n_lanes; i++) free(name[i]);
  free(name);
  free(in);
  return st;
}
