/* SPDX-License-Identifier: MIT
 * trace.c - keeps what ran when; the table at the end. The file is trace_file.c's. */
#include "host/trace_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

/* ---- the object -------------------------------------------------------------------------------------------------- */

int sp_trace_new(sp_trace **out, const char *path, uint64_t steps, size_t max, sp_err *err) {
  *out = NULL;
  if (!max || max > UINT32_MAX)
    return sp_fail(err, SP_E_RANGE, "a trace of %zu slices asked for, 1 to %u are possible", max, UINT32_MAX);
  sp_trace *t = sp_calloc(1, sizeof *t);
  if (!t) return sp_nomem(err, sizeof *t, "the trace");
  t->max = max;
  t->wanted = t->left = steps ? steps : UINT64_MAX;
  t->slices = sp_calloc(max, sizeof *t->slices);
  int st = SP_OK;
  if (!t->slices || (path && !(t->path = sp_strdup(path))))
    st = sp_nomem(err, max * sizeof *t->slices, "the trace; keep fewer slices");
  else if (path) st = sp_trace_try_file(path, err);
  if (st) sp_trace_free(t);
  else *out = t;
  return st;
}

void sp_trace_program_free(sp_trace_program *p) {
  for (size_t i = 0; p->tasks && i < p->n_tasks; i++) {
    free(p->tasks[i].stage);
    free(p->tasks[i].what);
    free(p->tasks[i].lane);
    free(p->tasks[i].track);
  }
  for (size_t i = 0; i < p->n_edges; i++) free(p->edges[i]);
  free(p->strategy);
  free(p->device);
  free(p->capture);
  free(p->single);
  free(p->tasks);
  free(p->waits);
  free(p->edges);
  free(p->uses);
}

static void wait_for_file(sp_trace *t) {
  if (t->writing) pthread_join(t->writer, NULL);
  t->writing = false;
}

void sp_trace_free(sp_trace *t) {
  if (!t) return;
  wait_for_file(t);
  for (size_t i = 0; i < t->n_programs; i++) sp_trace_program_free(&t->programs[i]);
  for (size_t i = 0; i < t->n_names; i++) free(t->names[i]);
  free(t->names);
  sp_trace_counted(t);
  free(t->samples);
  free(t->no_counters);
  free(t->runs);
  free(t->parts);
  free(t->programs);
  free(t->slices);
  free(t->path);
  free(t);
}

int sp_trace_add(sp_trace *t, sp_trace_program *p, uint16_t *id, sp_err *err) {
  if (t->n_programs > UINT16_MAX || !sp_grow(&t->programs, &t->cap_programs, t->n_programs + 1, sizeof *t->programs)) {
    sp_trace_program_free(p);
    return sp_nomem(err, sizeof *p, "the trace");
  }
  *id = (uint16_t)t->n_programs;
  t->programs[t->n_programs++] = *p;
  return SP_OK;
}

/* ---- keeping ----------------------------------------------------------------------------------------------------- */

void sp_trace_begin(sp_trace *t, uint16_t program, bool evaluation, uint64_t first, uint64_t n, uint64_t warm,
                    sp_trace_window *w) {
  uint64_t want = evaluation ? t->wanted : t->left, skip = evaluation || t->warm ? 0 : warm;
  if (t->written) want = 0;
  if (n && n < want) want = n;
  if (n && skip > n - want) skip = n - want;
  *w = (sp_trace_window){.first = first + skip, .n = want, .loop = ++t->loops, .program = program};
  if (evaluation) return;
  t->warm = true;
  if (want && !t->n_windows++) t->first = w->first;
}

bool sp_trace_begun(const sp_trace *t) { return t->loops > 0; }

void sp_trace_put(sp_trace *t, const sp_slice *slice) {
  size_t at = atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
  if (at < t->max) t->slices[at] = *slice;
}

/* Of many kernels that takes a while, in which the run goes on. Nothing is put behind its last step. */
static void *write_file(void *arg) {
  sp_trace *t = arg;
  sp_trace_put_file(t, &t->failure);
  return NULL;
}

uint64_t sp_trace_steps(const sp_trace *t) { return t->wanted == UINT64_MAX ? 0 : t->wanted; }

bool sp_trace_is_last(const sp_trace *t, const sp_trace_window *w, uint64_t step) {
  return t->left == 1 && sp_trace_wants(w, step);
}

int sp_trace_over(sp_trace *t, const sp_trace_window *w, uint64_t step, sp_err *err) {
  if (t->left == UINT64_MAX || !sp_trace_wants(w, step)) return SP_OK;
  t->last = step;
  if (--t->left || !t->path) return SP_OK;
  sp_trace_counted(t);
  t->written = true;
  t->writing = !sp_thread_start(&t->writer, "sp-trace-file", write_file, t);
  return t->writing ? SP_OK : sp_trace_put_file(t, err);
}

int sp_trace_write(sp_trace *t, sp_err *err) {
  bool behind = t->writing;
  wait_for_file(t);
  if (behind && t->failure.status) *err = t->failure;
  if (behind) return t->failure.status;
  if (t->written) return SP_OK;
  t->written = true;
  sp_trace_counted(t);
  return sp_trace_put_file(t, err);
}

size_t sp_trace_kept(const sp_trace *t) {
  size_t n = atomic_load(&((sp_trace *)t)->n);
  return n < t->max ? n : t->max;
}

size_t sp_trace_dropped(const sp_trace *t) { return atomic_load(&((sp_trace *)t)->n) - sp_trace_kept(t); }

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const sp_trace_task *task_of(const sp_trace *t, const sp_slice *s) {
  return &t->programs[s->program].tasks[s->task];
}

/* A call of a stage, or a copy; not what the host does. */
static bool counts(const sp_trace *t, const sp_slice *s) { return s->kind == SP_SLICE_TASK && !task_of(t, s)->host; }

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Copies to the front all that counts; how many. */
static size_t pick(const sp_trace *t, sp_slice *out) {
  size_t n = 0;
  for (size_t i = 0; i < sp_trace_kept(t); i++)
    if (counts(t, &t->slices[i])) out[n++] = t->slices[i];
  return n;
}

/* The first slice's call: in every program and replica. Takes its slices away. */
static size_t put_call(const sp_trace *t, sp_slice *s, size_t n, double all, double *ms, sp_sb *out) {
  const sp_trace_task *k = task_of(t, &s[0]);
  size_t rest = 0, own = 0;
  double total = 0;
  for (size_t i = 0; i < n; i++) {
    const sp_trace_task *o = task_of(t, &s[i]);
    if (strcmp(o->stage, k->stage) || strcmp(o->what, k->what)) {
      s[rest++] = s[i];
      continue;
    }
    total += ms[own++] = (s[i].end - s[i].begin) * 1e3;
  }
  qsort(ms, own, sizeof *ms, by_value);
  double median = own % 2 ? ms[own / 2] : (ms[own / 2 - 1] + ms[own / 2]) / 2;
  sp_sb_putf(out, "%-24s %-10s %8zu %12.3f %12.1f %6.1f%%\n", k->stage, k->what, own, median, total,
             all > 0 ? total / all * 100 : 0.0);
  return rest;
}

/* The first slice's lane, in the same way. Calls of one lane do not overlap. */
static size_t put_lane(const sp_trace *t, sp_slice *s, size_t n, double time, sp_sb *out) {
  const char *lane = task_of(t, &s[0])->lane;
  size_t rest = 0;
  double busy = 0;
  for (size_t i = 0; i < n; i++)
    if (strcmp(task_of(t, &s[i])->lane, lane)) s[rest++] = s[i];
    else busy += s[i].end - s[i].begin;
  sp_sb_putf(out, "%-24s %8zu %6.1f%%\n", lane, n - rest, time > 0 ? busy / time * 100 : 0.0);
  return rest;
}

static void put_bounds(const sp_trace *t, sp_sb *out) {
  size_t dropped = sp_trace_dropped(t);
  if (t->path && t->n_windows)
    sp_sb_putf(out, "%s: steps %" PRIu64 " to %" PRIu64 "; of other steps nothing is kept (--trace-steps)\n", t->path,
               t->first + 1, t->last + 1); /* people count from 1 */
  if (dropped) sp_sb_putf(out, "%zu slices were not kept: the trace holds %zu\n", dropped, t->max);
}

void sp_trace_summary(sp_trace *t, sp_sb *out) {
  sp_err ignored;
  wait_for_file(t);
  if (sp_trace_calls(t, &ignored)) out->broken = true;
  size_t max = sp_trace_kept(t), n;
  double *ms = sp_calloc(max + 1, sizeof *ms), all = 0, first = 0, last = 0;
  sp_slice *s = sp_calloc(max + 1, sizeof *s);
  if (!ms || !s) out->broken = true;
  else {
    n = pick(t, s);
    for (size_t i = 0; i < n; i++) {
      all += (s[i].end - s[i].begin) * 1e3;
      if (!i || s[i].begin < first) first = s[i].begin;
      if (!i || s[i].end > last) last = s[i].end;
    }
    sp_sb_putf(out, "%-24s %-10s %8s %12s %12s %7s\n", "stage", "call", "calls", "median ms", "total ms", "share");
    while (n) n = put_call(t, s, n, all, ms, out);
    sp_sb_putf(out, "\n%-24s %8s %7s\n", "lane", "calls", "busy");
    for (n = pick(t, s); n;) n = put_lane(t, s, n, last - first, out);
    put_bounds(t, out);
  }
  free(ms);
  free(s);
}
