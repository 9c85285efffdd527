/* SPDX-License-Identifier: MIT
 * trace_calls.c - calls in recorded graphs: of what a device tells of a launch afterwards, slices of the calls and
 * of their parts.
 *
 * The clock that the device tells them by is not quite that of the events around a launch. So all of a launch is
 * moved by as little as puts it between its events; what had none is moved as the launch before. */
#include "host/trace_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is told ------------------------------------------------------------------------------------------------ */

int sp_trace_recorded(sp_trace *t, sp_err *err) {
  if (!t->runs) t->runs = sp_calloc(t->max, sizeof *t->runs);
  return t->runs ? SP_OK : sp_nomem(err, t->max * sizeof *t->runs, "the trace");
}

uint64_t sp_trace_launch(sp_trace *t, const sp_trace_window *w, uint64_t step) {
  if (!t->runs || t->n_runs >= t->max) return 0;
  t->runs[t->n_runs] = (sp_trace_run){.window = *w, .step = step};
  return ++t->n_runs;
}

void sp_trace_launched(sp_trace *t, uint64_t launch, double begin, double end) {
  if (!launch) return;
  t->runs[launch - 1].begin = begin;
  t->runs[launch - 1].end = end;
}

/* The number of a name; there are few. */
static int name_of(sp_trace *t, const char *what, uint16_t *name) {
  for (size_t i = 0; i < t->n_names; i++) {
    *name = (uint16_t)i;
    if (!strcmp(t->names[i], what)) return SP_OK;
  }
  if (t->n_names > UINT16_MAX) return SP_OK; /* the last of them stands for what is more */
  if (!sp_grow(&t->names, &t->cap_names, t->n_names + 1, sizeof *t->names)) return SP_E_NOMEM;
  if (!(t->names[t->n_names] = sp_strdup(what))) return SP_E_NOMEM;
  *name = (uint16_t)t->n_names++;
  return SP_OK;
}

int sp_trace_span(sp_trace *t, uint64_t launch, int task, const char *what, double begin, double end) {
  uint16_t name;
  if (!launch || launch > t->n_runs || task < 0) return SP_OK;
  if ((size_t)task >= t->programs[t->runs[launch - 1].window.program].n_tasks) return SP_OK;
  if (!sp_grow(&t->parts, &t->cap_parts, t->n_parts + 1, sizeof *t->parts) || name_of(t, what, &name))
    return SP_E_NOMEM;
  t->parts[t->n_parts++] = (sp_trace_part){begin, end, (uint32_t)(launch - 1), task, name};
  return SP_OK;
}

/* ---- one launch -------------------------------------------------------------------------------------------------- */

/* A call of a launch: from the begin of its first part to the end of the last. */
typedef struct call {
  double begin, end, upto; /* upto: the end of the last part that was put */
  int task;                /* -1: it has no part */
} call;

static int compare_part(const void *x, const void *y) {
  const sp_trace_part *a = x, *b = y;
  if (a->launch != b->launch) return a->launch < b->launch ? -1 : 1;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  return (a->end > b->end) - (a->end < b->end);
}

static size_t launch_end(const sp_trace *t, size_t i) {
  size_t k = i;
  while (k < t->n_parts && t->parts[k].launch == t->parts[i].launch) k++;
  return k;
}

static double within(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

/* Moves the parts i to k of a launch, and cuts off what stands out all the same. */
static void move(sp_trace *t, size_t i, size_t k) {
  const sp_trace_run *r = &t->runs[t->parts[i].launch];
  double first = t->parts[i].begin, last = first;
  for (size_t p = i; p < k; p++)
    if (t->parts[p].end > last) last = t->parts[p].end;
  if (r->end > r->begin && last - first <= r->end - r->begin) t->shift = within(0, r->begin - first, r->end - last);
  else if (r->end > r->begin) t->shift = r->begin - first;
  for (size_t p = i; p < k; p++) {
    sp_trace_part *x = &t->parts[p];
    x->begin += t->shift;
    x->end += t->shift;
    if (r->end <= r->begin) continue;
    x->begin = within(x->begin, r->begin, r->end);
    x->end = within(x->end, r->begin, r->end);
  }
}

/* Of the parts i to k, which are in order. calls[] is by task; order[]: by when they began. */
static size_t find_calls(const sp_trace *t, size_t i, size_t k, call *calls, call **order) {
  size_t n = t->programs[t->runs[t->parts[i].launch].window.program].n_tasks, found = 0;
  for (size_t c = 0; c < n; c++) calls[c].task = -1;
  for (; i < k; i++) {
    const sp_trace_part *x = &t->parts[i];
    call *c = &calls[x->task];
    if (c->task < 0) {
      *c = (call){.begin = x->begin, .end = x->end, .upto = x->begin, .task = x->task};
      order[found++] = c;
    }
    if (x->end > c->end) c->end = x->end;
  }
  return found;
}

/* A kernel may begin while the last one of the call before is finishing; slices of a track do not cross. */
static void part_calls(const sp_trace_program *p, call **order, size_t n) {
  for (size_t i = 1; i < n; i++)
    for (size_t k = i; k-- > 0;) {
      if (strcmp(p->tasks[order[i]->task].track, p->tasks[order[k]->task].track)) continue;
      if (order[i]->begin < order[k]->end) order[i]->begin = order[i]->upto = order[k]->end;
      if (order[i]->end < order[i]->begin) order[i]->end = order[i]->begin;
      break;
    }
}

/* Of the step that the task has in the launch; only if that one is wanted. */
static void put(sp_trace *t, const sp_trace_run *r, sp_slice s) {
  s.step = r->step - (uint64_t)t->programs[r->window.program].tasks[s.task].delay;
  s.program = r->window.program;
  s.loop = r->window.loop;
  if (sp_trace_wants(&r->window, s.step)) sp_trace_put(t, &s);
}

static void put_parts(sp_trace *t, size_t i, size_t k, call *calls) {
  for (; i < k; i++) {
    const sp_trace_part *x = &t->parts[i];
    call *c = &calls[x->task];
    double begin = within(x->begin, c->upto, c->end), end = within(x->end, begin, c->end);
    c->upto = end;
    put(t, &t->runs[x->launch],
        (sp_slice){.kind = SP_SLICE_KERNEL, .task = x->task, .begin = begin, .end = end, .worker = x->name});
  }
}

static void put_calls(sp_trace *t, const sp_trace_run *r, call **order, size_t n) {
  for (size_t i = 0; i < n; i++)
    put(t, r,
        (sp_slice){.kind = SP_SLICE_TASK, .task = order[i]->task, .begin = order[i]->begin, .end = order[i]->end});
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Where there is not room for everything, that is for calls. */
static void put_all(sp_trace *t, bool parts, call *calls, call **order) {
  for (size_t i = 0, k; i < t->n_parts; i = k) {
    const sp_trace_run *r = &t->runs[t->parts[i].launch];
    k = launch_end(t, i);
    if (!parts) move(t, i, k);
    size_t n = find_calls(t, i, k, calls, order);
    part_calls(&t->programs[r->window.program], order, n);
    if (parts) put_parts(t, i, k, calls);
    else put_calls(t, r, order, n);
  }
}

int sp_trace_calls(sp_trace *t, sp_err *err) {
  size_t most = 1;
  if (!t->n_parts) return SP_OK;
  for (size_t i = 0; i < t->n_programs; i++)
    if (t->programs[i].n_tasks > most) most = t->programs[i].n_tasks;
  call *calls = sp_calloc(most, sizeof *calls), **order = sp_calloc(most, sizeof(call *));
  int st = calls && order ? SP_OK : sp_nomem(err, most * sizeof *calls, "the trace");
  qsort(t->parts, t->n_parts, sizeof *t->parts, compare_part);
  for (int parts = 0; parts < 2 && !st; parts++) put_all(t, parts, calls, order);
  t->n_parts = 0;
  free(calls);
  free(order);
  return st;
}
