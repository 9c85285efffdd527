/* SPDX-License-Identifier: MIT
 * timeline.c - what ran when on a device whose calls only submit: events around every call, read when its step is
 * collected.
 *
 * A device's clock knows only differences. The first mark is set beside the host's clock while nothing runs; from then on
 * each step is measured from the first call of the step before, so that no difference grows large and loses digits. */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool watched(const sp_program *p, const sp_task *t) {
  return p->g->opts.trace && p->g->border && p->lanes[t->lane].place == &p->g->main;
}

int sp_timeline_make(sp_program *p, sp_task *t, sp_err *err) {
  const sp_place *place = &p->g->main;
  sp_ctx_holder h;
  int st = SP_OK;
  if (!watched(p, t)) return SP_OK;
  t->marks = sp_graph_zalloc(p->g, 2 * (size_t)p->ring, sizeof *t->marks, "a timeline", err);
  if (!t->marks) return err->status;
  for (int i = 0; i < 2 * p->ring && !st; i++)
    st = place->type->event_open(sp_ctx_for(&h, t->name, err), place->dev, SP_EVENT_TIMING, &t->marks[i]);
  return st;
}

void sp_timeline_free(sp_program *p, sp_task *t) {
  for (int i = 0; t->marks && i < 2 * p->ring; i++)
    if (t->marks[i]) p->g->main.type->event_close(t->marks[i]);
  free(t->marks);
}

int sp_timeline_mark(sp_program *p, sp_task *t, uint64_t step, bool end, sp_err *err) {
  const sp_device_type *d = p->g->main.type;
  void *stream = p->lanes[t->lane].stream, *mark;
  sp_ctx_holder h;
  int st;
  if (!t->marks) return SP_OK;
  mark = t->marks[2 * (step % (uint64_t)p->ring) + end];
  if ((st = d->event_record(sp_ctx_for(&h, t->name, err), mark, stream)) || p->mark) return st;
  if ((st = d->event_sync(sp_ctx_for(&h, t->name, err), mark))) return st;
  p->mark = mark;
  p->mark_time = sp_now();
  return SP_OK;
}

/* Seconds of the host's clock at a mark. */
static int moment(const sp_program *p, void *mark, double *t, sp_err *err) {
  sp_ctx_holder h;
  double ms = 0;
  int st =
      mark == p->mark ? SP_OK : p->g->main.type->event_elapsed(sp_ctx_for(&h, "the timeline", err), p->mark, mark, &ms);
  *t = p->mark_time + ms * 1e-3;
  return st;
}

int sp_timeline_collect(sp_program *p, uint64_t step, sp_err *err) {
  void *first = NULL;
  double first_time = 0;
  for (size_t i = 0; p->mark && i < p->n_tasks; i++) {
    sp_task *t = &p->tasks[i];
    void **marks = t->marks ? &t->marks[2 * (step % (uint64_t)p->ring)] : NULL;
    const char *dot = strrchr(t->name, '.');
    char name[128];
    sp_span span = {.step = step, .lane = &p->lanes[t->lane], .instance = name, .what = dot ? dot + 1 : ""};
    int st;
    if (!marks || step % (uint64_t)t->every != (uint64_t)t->phase) continue;
    if ((st = moment(p, marks[0], &span.begin, err)) || (st = moment(p, marks[1], &span.end, err))) return st;
    snprintf(name, sizeof name, "%.*s", dot ? (int)(dot - t->name) : (int)strlen(t->name), t->name);
    sp_trace_observe(p->g->opts.trace, &span);
    if (!first) first = marks[0], first_time = span.begin;
  }
  if (first) p->mark = first, p->mark_time = first_time;
  return SP_OK;
}
