/* SPDX-License-Identifier: MIT
 * timeline.c - what ran when on a device whose calls only submit: events around every call, read when its step is
 * collected.
 *
 * A device's clock knows only differences. The first mark is set beside the host's clock while nothing runs; from then on
 * each step is measured from the first call of the step before, so that no difference grows large and loses digits. */
#include "run/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sp_timeline_watches(const sp_machine *m, const sp_task *t) {
  return m->g->opts.trace && m->g->border && m->p->lanes[t->lane].place == &m->g->main;
}

int sp_timeline_make(sp_machine *m, const sp_task *t, sp_err *err) {
  sp_post *post = &m->posts[t->index];
  int n = 2 * m->p->ring, st = SP_OK;
  if (!sp_timeline_watches(m, t)) return SP_OK;
  post->marks = sp_graph_zalloc(m->g, (size_t)n, sizeof *post->marks, "a timeline", err);
  if (!post->marks) return err->status;
  for (int i = 0; i < n && !st; i++) st = sp_place_event(&m->g->main, SP_EVENT_TIMING, t->name, &post->marks[i], err);
  return st;
}

void sp_timeline_free(sp_machine *m, const sp_task *t) {
  void **marks = m->posts[t->index].marks;
  for (int i = 0; marks && i < 2 * m->p->ring; i++)
    if (marks[i]) m->g->main.type->event_close(marks[i]);
  free(marks);
}

int sp_timeline_mark(sp_loop *l, const sp_op *op, uint64_t step, sp_err *err) {
  const sp_place *main = &l->m->g->main;
  const char *name = l->m->p->tasks[op->task].name;
  void *mark = l->m->posts[op->task].marks[2 * (step % (uint64_t)l->m->p->ring) + (uint64_t)op->back];
  int st = sp_place_record(main, mark, sp_machine_stream(l->m, op->lane)->own, name, err);
  if (st || l->mark) return st;
  if ((st = sp_place_sync_event(main, mark, name, err))) return st;
  l->mark = mark;
  l->mark_time = sp_now();
  return SP_OK;
}

/* Seconds of the host's clock at a mark. */
static int moment(const sp_loop *l, void *mark, double *t, sp_err *err) {
  const sp_device_type *d = l->m->g->main.type;
  sp_ctx_holder h;
  double ms = 0;
  int st = mark == l->mark ? SP_OK : d->event_elapsed(sp_ctx_for(&h, "the timeline", err), l->mark, mark, &ms);
  *t = l->mark_time + ms * 1e-3;
  return st;
}

int sp_timeline_collect(sp_loop *l, uint64_t step, sp_err *err) {
  const sp_machine *m = l->m;
  void *first = NULL;
  double first_time = 0;
  bool ran = m->known[step % (uint64_t)m->p->ring].n > 0;
  for (size_t i = 0; ran && l->mark && i < m->p->n_tasks; i++) {
    const sp_task *t = &m->p->tasks[i];
    void **marks = m->posts[i].marks ? &m->posts[i].marks[2 * (step % (uint64_t)m->p->ring)] : NULL;
    const char *dot = strrchr(t->name, '.');
    char name[128];
    sp_span span = {.step = step, .lane = &m->streams[t->lane], .instance = name, .what = dot ? dot + 1 : ""};
    int st;
    if (!marks || step % (uint64_t)t->every != (uint64_t)t->phase) continue;
    if ((st = moment(l, marks[0], &span.begin, err)) || (st = moment(l, marks[1], &span.end, err))) return st;
    snprintf(name, sizeof name, "%.*s", dot ? (int)(dot - t->name) : (int)strlen(t->name), t->name);
    sp_trace_observe(m->g->opts.trace, &span);
    if (!first) first = marks[0], first_time = span.begin;
  }
  if (first) l->mark = first, l->mark_time = first_time;
  return SP_OK;
}
