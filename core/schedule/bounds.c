/* SPDX-License-Identifier: MIT
 * bounds.c - the bounds of a scheduler's input and the form of a schedule, before anyone works with them. */
#include "schedule/ops.h"

/* Far above any graph; they keep sizes and the time of a proof bounded whatever a script asks for. */
enum {
  MAX_LANES = 256,
  MAX_TASKS = 2048,
  MAX_RESOURCES = 1 << 16,
  MAX_DELAY = 1024,
  MAX_PERIOD = 4096,
  MAX_SPAN = 1 << 15
};

static int check_task(const sp_sched_input *in, size_t i, sp_err *err) {
  const sp_sched_task *t = &in->tasks[i];
  if (!t->name) return sp_fail(err, SP_E_INVALID, "schedule: task %zu has no name", i);
  if (t->lane < 0 || (size_t)t->lane >= in->n_lanes)
    return sp_fail(err, SP_E_INVALID, "schedule: task '%s' is on lane %d, there are %zu", t->name, t->lane,
                   in->n_lanes);
  if (t->delay < -1 || t->delay > MAX_DELAY)
    return sp_fail(err, SP_E_RANGE, "schedule: task '%s' has delay %d: choose 0 to %d", t->name, t->delay, MAX_DELAY);
  if (t->delay >= 0 && !in->lanes[t->lane].host)
    return sp_fail(err, SP_E_INVALID,
                   "schedule: task '%s' has a delay of its own: only tasks of the host lane may, '%s' is none", t->name,
                   in->lanes[t->lane].name);
  if (t->every < 1 || t->every > MAX_PERIOD || t->phase < 0 || t->phase >= t->every)
    return sp_fail(err, SP_E_RANGE,
                   "schedule: task '%s' runs every %d steps at phase %d: choose every 1 to %d and 0 <= phase < every",
                   t->name, t->every, t->phase, MAX_PERIOD);
  for (size_t a = 0; a < t->n_acc; a++) {
    if (t->acc[a].resource < 0 || (size_t)t->acc[a].resource >= in->n_resources)
      return sp_fail(err, SP_E_INVALID, "schedule: task '%s' uses resource %d, there are %zu", t->name,
                     t->acc[a].resource, in->n_resources);
    if (t->acc[a].mode < SP_READ || t->acc[a].mode > (SP_READ | SP_WRITE))
      return sp_fail(err, SP_E_INVALID, "schedule: task '%s' uses '%s' in mode %d: choose SP_READ, SP_WRITE or both",
                     t->name, in->resources[t->acc[a].resource].name, t->acc[a].mode);
  }
  return SP_OK;
}

int sp_schedule_check(const sp_sched_input *in, sp_err *err) {
  if (in->n_lanes > MAX_LANES || in->n_tasks > MAX_TASKS || in->n_resources > MAX_RESOURCES)
    return sp_fail(err, SP_E_RANGE, "schedule: %zu lanes, %zu tasks, %zu resources: at most %d, %d and %d", in->n_lanes,
                   in->n_tasks, in->n_resources, MAX_LANES, MAX_TASKS, MAX_RESOURCES);
  const char *host = NULL;
  for (size_t i = 0; i < in->n_lanes; i++) {
    const sp_sched_lane *l = &in->lanes[i];
    if (!l->name) return sp_fail(err, SP_E_INVALID, "schedule: lane %zu has no name", i);
    if (l->delay < 0 || l->delay > MAX_DELAY)
      return sp_fail(err, SP_E_RANGE, "schedule: lane '%s' has delay %d: choose 0 to %d", l->name, l->delay, MAX_DELAY);
    if (l->host && host)
      return sp_fail(err, SP_E_INVALID, "schedule: lanes '%s' and '%s' are both the host's: one may be", host, l->name);
    if (l->host) host = l->name;
  }
  for (size_t i = 0; i < in->n_resources; i++) {
    const sp_sched_resource *r = &in->resources[i];
    if (!r->name) return sp_fail(err, SP_E_INVALID, "schedule: resource %zu has no name", i);
    if (r->slots < 0 || r->slots > SP_SCHED_MAX_SLOTS || r->extra < 0 || r->extra > SP_SCHED_MAX_SLOTS)
      return sp_fail(err, SP_E_RANGE, "schedule: '%s' has %d slots and %d extra: choose 0 to %d", r->name, r->slots,
                     r->extra, SP_SCHED_MAX_SLOTS);
  }
  for (size_t i = 0; i < in->n_tasks; i++) {
    int st = check_task(in, i, err);
    if (st) return st;
  }
  return SP_OK;
}

int sp_schedule_span(const sp_sched_input *in, const int *slots, int *period, int *span, sp_err *err) {
  *period = *span = 1;
  for (size_t i = 0; i < in->n_tasks; i++) {
    const sp_sched_task *t = &in->tasks[i];
    int64_t p = (int64_t)*period / sp_gcd(*period, t->every) * t->every;
    if (p > MAX_PERIOD)
      return sp_fail(err, SP_E_RANGE,
                     "schedule: with '%s' every %d steps the pattern of steps repeats only after %lld: "
                     "choose numbers of replicas that are multiples of each other (at most %d)",
                     t->name, t->every, (long long)p, MAX_PERIOD);
    *period = (int)p;
    for (size_t a = 0; a < t->n_acc; a++) {
      int n = slots[t->acc[a].resource];
      int64_t back = (int64_t)n / sp_gcd(n, t->every) * t->every;
      if (back > MAX_SPAN)
        return sp_fail(err, SP_E_RANGE,
                       "schedule: '%s' (every %d steps) meets a slot of '%s' (%d slots) again only after "
                       "%lld steps: use smaller delays, fewer replicas or less extra",
                       t->name, t->every, in->resources[t->acc[a].resource].name, n, (long long)back);
      if (back > *span) *span = (int)back;
    }
  }
  int64_t steps = 4 * (int64_t)*period + 3 * (int64_t)*span + 4 * MAX_DELAY;
  if (steps * (int64_t)in->n_tasks * (int64_t)(in->n_lanes + 1) > SP_SCHED_MAX_WORK)
    return sp_fail(
        err, SP_E_RANGE,
        "schedule: %zu tasks on %zu lanes over %lld steps are too many to prove: use fewer lanes or replicas",
        in->n_tasks, in->n_lanes, (long long)steps);
  return SP_OK;
}

/* ---- a schedule -------------------------------------------------------------------------------------------------- */

static int check_item(const sp_schedule *s, const sp_sched_input *in, size_t i, sp_err *err) {
  const sp_sched_task *t = &in->tasks[i];
  int want = sp_sched_delay(in, (int)i);
  if (s->delay[i] != want || want > s->depth)
    return sp_fail(err, SP_E_INVALID, "schedule: task '%s' has delay %d, the strategy says %d", t->name, s->delay[i],
                   want);
  if (s->order[i] < 0 || (size_t)s->order[i] >= s->n_items)
    return sp_fail(err, SP_E_INVALID, "schedule: the order names task %d of %zu", s->order[i], s->n_items);
  for (size_t k = 0; k < s->items[i].n_waits; k++) {
    const sp_sched_wait *w = &s->items[i].waits[k];
    if (w->task < 0 || (size_t)w->task >= s->n_items || w->back < 0 || w->back > 1 << 16)
      return sp_fail(err, SP_E_INVALID, "schedule: '%s' waits for task %d, %d steps back", t->name, w->task, w->back);
    if (!s->items[w->task].record)
      return sp_fail(err, SP_E_RACE, "'%s' waits for '%s', which records no event", t->name, in->tasks[w->task].name);
  }
  return SP_OK;
}

static int check_order(const sp_schedule *s, const sp_sched_input *in, sp_err *err) {
  for (size_t i = 1; i < s->n_items; i++) {
    int a = s->order[i - 1], b = s->order[i];
    if (s->delay[a] < s->delay[b] || (s->delay[a] == s->delay[b] && a >= b))
      return sp_fail(err, SP_E_RACE,
                     "'%s' (delay %d) is submitted before '%s' (delay %d): the oldest step must come "
                     "first, then the program's order",
                     in->tasks[a].name, s->delay[a], in->tasks[b].name, s->delay[b]);
  }
  return SP_OK;
}

int sp_schedule_prove(const sp_schedule *s, const sp_sched_input *in, sp_err *err) {
  sp_ops ops;
  int st = sp_schedule_check(in, err);
  if (st) return st;
  if (s->n_items != in->n_tasks || s->n_resources != in->n_resources)
    return sp_fail(err, SP_E_INVALID, "schedule: %zu items and %zu resources for %zu tasks and %zu resources",
                   s->n_items, s->n_resources, in->n_tasks, in->n_resources);
  for (size_t i = 0; i < s->n_items; i++)
    if ((st = check_item(s, in, i, err))) return st;
  if ((st = check_order(s, in, err)) || (st = sp_ops_lower(&ops, s, in, err))) return st;
  st = sp_ops_prove(&ops, in, s->slots, err);
  sp_ops_free(&ops);
  return st;
}
