/* SPDX-License-Identifier: MIT
 * trace_file.c - a trace as a file: slices, and what is found of them now:
 * arrows for the waits between lanes, counters. */
#include "host/trace_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RATE 8        /* steps that a rate is the mean of */
#define CLOCKS 100000 /* ns that the clocks of two devices may disagree by */

typedef struct writer {
  const sp_trace *t;
  FILE *f;
  double zero;
  const sp_slice **in_time, **by_step; /* all; those of tasks by program, loop, step, task */
  size_t n, n_tasks;
  char **tracks; /* "host", lanes, copies, workers: their numbers begin with 1 */
  size_t n_tracks, cap_tracks;
  size_t backward; /* waits whose task begins before the other one's end: clocks of two devices */
  bool memory;
} writer;

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* A pipe or /dev/stdout is written as it is; a file takes the place of an older one when it is whole. */
static bool in_place(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && !S_ISREG(s.st_mode);
}

static FILE *open_file(const char *path, char **temporary) {
  sp_sb sb = {0};
  *temporary = NULL;
  if (in_place(path)) return fopen(path, "w");
  sp_sb_putf(&sb, "%s.XXXXXX", path);
  *temporary = sb.s;
  int fd = sb.broken ? -1 : mkstemp(sb.s);
  if (sb.broken) errno = ENOMEM;
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (fd >= 0) fchmod(fd, 0644);
  if (f) return f;
  free(sb.s);
  *temporary = NULL;
  return NULL;
}

static int failed(const char *path, int why, sp_err *err) {
  return sp_fail(err, SP_E_IO, "cannot write the trace '%s': %s", path, strerror(why));
}

int sp_trace_try_file(const char *path, sp_err *err) {
  char *temporary;
  FILE *f = open_file(path, &temporary);
  if (!f) return failed(path, errno, err);
  fclose(f);
  if (temporary) unlink(temporary);
  free(temporary);
  return SP_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

#define COMPARE(a, b) \
  if ((a) != (b)) return (a) < (b) ? -1 : 1

static int depth(const sp_slice *s) { return s->kind == SP_SLICE_SEGMENT ? 0 : s->kind == SP_SLICE_KERNEL ? 2 : 1; }

static int compare_time(const void *x, const void *y) {
  const sp_slice *a = *(const sp_slice *const *)x, *b = *(const sp_slice *const *)y;
  COMPARE(a->begin, b->begin);
  COMPARE(b->end, a->end); /* what lies around others comes before them */
  COMPARE(depth(a), depth(b));
  return 0;
}

static int compare_step(const void *x, const void *y) {
  const sp_slice *a = *(const sp_slice *const *)x, *b = *(const sp_slice *const *)y;
  COMPARE(a->program, b->program);
  COMPARE(a->loop, b->loop);
  COMPARE(a->step, b->step);
  COMPARE(a->task, b->task);
  return 0;
}

static bool sort(writer *w) {
  w->n = sp_trace_kept(w->t);
  w->in_time = sp_calloc(w->n + 1, sizeof *w->in_time);
  w->by_step = sp_calloc(w->n + 1, sizeof *w->by_step);
  if (!w->in_time || !w->by_step) return false;
  for (size_t i = 0; i < w->n; i++) {
    w->in_time[i] = &w->t->slices[i];
    if (w->in_time[i]->kind == SP_SLICE_TASK) w->by_step[w->n_tasks++] = w->in_time[i];
  }
  qsort(w->in_time, w->n, sizeof *w->in_time, compare_time);
  qsort(w->by_step, w->n_tasks, sizeof *w->by_step, compare_step);
  w->zero = w->n ? w->in_time[0]->begin : 0;
  return true;
}

/* Nanoseconds, whole ones, so that what lay within something does so in the file. */
static int64_t at(const writer *w, double t) { return (int64_t)((t - w->zero) * 1e9 + 0.5); }

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static const sp_trace_task *task_of(const writer *w, const sp_slice *s) {
  return &w->t->programs[s->program].tasks[s->task];
}

static void put_text(writer *w, const char *text) {
  sp_sb sb = {0};
  sp_sb_json(&sb, text);
  w->memory = w->memory && !sb.broken;
  fputs(sp_sb_str(&sb), w->f);
  sp_sb_free(&sb);
}

/* ,"key":"text" */
static void put_field(writer *w, const char *key, const char *text) {
  fprintf(w->f, ",\"%s\":", key);
  put_text(w, text);
}

static void put_time(writer *w, const char *key, int64_t ns) {
  fprintf(w->f, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void put_event(writer *w, const char *ph, size_t track) {
  fprintf(w->f, ",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%zu", ph, track);
}

/* The number of a track, a new one where there is none of that name. */
static size_t track(writer *w, const char *name) {
  for (size_t i = 0; i < w->n_tracks; i++)
    if (!strcmp(w->tracks[i], name)) return i + 1;
  char *copy = sp_strdup(name);
  if (!copy || !sp_grow(&w->tracks, &w->cap_tracks, w->n_tracks + 1, sizeof *w->tracks)) {
    free(copy);
    w->memory = false;
    return 1;
  }
  w->tracks[w->n_tracks++] = copy;
  return w->n_tracks;
}

static size_t worker_track(writer *w, const sp_slice *s) {
  char name[160];
  snprintf(name, sizeof name, "%.120s worker %u", task_of(w, s)->stage, s->worker + 1u);
  return track(w, name);
}

static size_t track_of(writer *w, const sp_slice *s) {
  switch (s->kind) {
    case SP_SLICE_TASK:
    case SP_SLICE_KERNEL: return track(w, task_of(w, s)->track);
    case SP_SLICE_SEGMENT: return track(w, task_of(w, s)->lane);
    case SP_SLICE_WORKER: return worker_track(w, s);
    default: return 1;
  }
}

/* Numbers in the order in which they are to be shown. */
static void number_tracks(writer *w) {
  track(w, "host");
  for (size_t i = 0; i < w->t->n_programs; i++)
    for (size_t k = 0; k < w->t->programs[i].n_tasks; k++) track(w, w->t->programs[i].tasks[k].lane);
  for (size_t i = 0; i < w->t->n_programs; i++)
    for (size_t k = 0; k < w->t->programs[i].n_tasks; k++) track(w, w->t->programs[i].tasks[k].track);
  for (size_t i = 0; i < w->n; i++)
    if (w->t->slices[i].kind == SP_SLICE_WORKER) worker_track(w, &w->t->slices[i]);
}

static void put_tracks(writer *w) {
  for (size_t i = 0; i < w->n_tracks; i++) {
    put_event(w, "M", i + 1);
    fputs(",\"name\":\"thread_name\",\"args\":{\"name\":", w->f);
    put_text(w, w->tracks[i]);
    fputs("}}", w->f);
    put_event(w, "M", i + 1);
    fprintf(w->f, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%zu}}", i + 1);
  }
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

static void put_name(writer *w, const sp_slice *s) {
  static const char *const before[] = {"", "", "graph from ", "wait for ", "step loop", "script"};
  sp_sb sb = {0};
  if (s->kind == SP_SLICE_KERNEL) {
    put_field(w, "name", w->t->names[s->worker]);
    return;
  }
  sp_sb_put(&sb, before[s->kind]);
  if (s->task >= 0) sp_sb_putf(&sb, "%s %s", task_of(w, s)->stage, task_of(w, s)->what);
  w->memory = w->memory && !sb.broken;
  put_field(w, "name", sp_sb_str(&sb));
  sp_sb_free(&sb);
}

static void put_slice(writer *w, const sp_slice *s) {
  static const char *const cats[] = {"call", "worker", "graph", "wait", "host", "host", "kernel"};
  const sp_trace_task *t = s->task >= 0 ? task_of(w, s) : NULL;
  bool host = t && t->host && s->kind == SP_SLICE_TASK;
  int64_t begin = at(w, s->begin);
  put_event(w, "X", track_of(w, s));
  put_name(w, s);
  put_field(w, "cat", host ? "host" : cats[s->kind]);
  put_time(w, "ts", begin);
  put_time(w, "dur", at(w, s->end) - begin);
  fprintf(w->f, ",\"args\":{\"step\":%" PRIu64 ",\"loop\":%u", s->step, s->loop);
  if (t && s->kind != SP_SLICE_WAIT) {
    put_field(w, "stage", t->stage);
    put_field(w, "lane", t->lane);
  }
  if (t && s->kind == SP_SLICE_TASK) {
    fprintf(w->f, ",\"slot\":%" PRIu64 ",\"bytes\":%" PRIu64, s->step % (uint64_t)t->slots, t->bytes);
  }
  fputs("}}", w->f);
}

/* ---- arrows ------------------------------------------------------------------------------------------------------ */

static const sp_slice *find(const writer *w, sp_slice key) {
  const sp_slice *p = &key, **hit = bsearch(&p, w->by_step, w->n_tasks, sizeof *w->by_step, compare_step);
  return hit ? *hit : NULL;
}

/* The run that a wait of slice s is for; NULL: it is not in the trace. */
static const sp_slice *waited(const writer *w, const sp_slice *s, const sp_trace_wait *wait) {
  const sp_trace_task *from = &w->t->programs[s->program].tasks[wait->from];
  int64_t step = (int64_t)s->step - wait->back;
  if (step < from->phase) return NULL;
  step -= (step - from->phase) % from->every;
  return find(w, (sp_slice){.program = s->program, .loop = s->loop, .step = (uint64_t)step, .task = wait->from});
}

static void put_arrow(writer *w, const sp_slice *from, const sp_slice *to, size_t id) {
  int64_t begin = at(w, from->begin), end = at(w, from->end), then = at(w, to->begin);
  put_event(w, "s", track_of(w, from));
  fprintf(w->f, ",\"id\":%zu,\"name\":\"wait\",\"cat\":\"wait\"", id);
  end = end > begin ? end - 1 : end; /* within the slice, to whom it belongs */
  put_time(w, "ts", end < then ? end : then);
  fputs("}", w->f);
  put_event(w, "f", track_of(w, to));
  fprintf(w->f, ",\"bp\":\"e\",\"id\":%zu,\"name\":\"wait\",\"cat\":\"wait\"", id);
  put_time(w, "ts", then);
  fputs("}", w->f);
}

static void put_arrows(writer *w) {
  size_t id = 0;
  for (size_t i = 0; i < w->n_tasks; i++) {
    const sp_slice *to = w->by_step[i];
    const sp_trace_program *p = &w->t->programs[to->program];
    for (size_t k = 0; k < p->n_waits; k++) {
      const sp_slice *from = p->waits[k].task == to->task ? waited(w, to, &p->waits[k]) : NULL;
      if (from && at(w, from->end) <= at(w, to->begin) + CLOCKS) put_arrow(w, from, to, ++id);
      else if (from) w->backward++;
    }
  }
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

typedef struct point {
  double time;
  int change;
} point;

static int compare_point(const void *x, const void *y) {
  const point *a = x, *b = y;
  COMPARE(a->time, b->time);
  COMPARE(a->change, b->change);
  return 0;
}

static void put_counter(writer *w, size_t program, const char *what, const char *of, double time, double value) {
  sp_sb sb = {0};
  sp_sb_put(&sb, what);
  if (program) sp_sb_putf(&sb, " (evaluation %zu)", program);
  if (of) sp_sb_putf(&sb, ": %s", of);
  w->memory = w->memory && !sb.broken;
  fputs(",\n{\"ph\":\"C\",\"pid\":1", w->f);
  put_field(w, "name", sp_sb_str(&sb));
  put_time(w, "ts", at(w, time));
  fprintf(w->f, ",\"args\":{\"value\":%.6g}}", value);
  sp_sb_free(&sb);
}

static bool uses(const sp_trace_program *p, size_t edge, int task) {
  for (size_t i = 0; i < p->n_uses; i++)
    if ((size_t)p->uses[i].edge == edge && p->uses[i].task == task) return true;
  return false;
}

/* A slot is in use from the first call of a step that touches it to the end of the last. */
static void put_edge(writer *w, size_t program, size_t first, size_t last, size_t edge, point *points) {
  const sp_trace_program *p = &w->t->programs[program];
  const sp_slice *before = NULL;
  size_t n = 0;
  double used = 0;
  for (size_t i = first; i < last; i++) {
    const sp_slice *s = w->by_step[i];
    if (!uses(p, edge, s->task)) continue;
    if (!before || before->step != s->step || before->loop != s->loop) {
      points[n++] = (point){s->begin, 1};
      points[n++] = (point){s->end, -1};
    }
    if (s->begin < points[n - 2].time) points[n - 2].time = s->begin;
    if (s->end > points[n - 1].time) points[n - 1].time = s->end;
    before = s;
  }
  qsort(points, n, sizeof *points, compare_point);
  for (size_t i = 0; i < n; i++) {
    used += points[i].change;
    put_counter(w, program, "slots in use", p->edges[edge], points[i].time, used);
  }
}

static void put_rate(writer *w, size_t program, size_t first, size_t last) {
  double times[RATE];
  uint32_t loop = 0;
  size_t n = 0;
  for (size_t i = first; i < last; i++) {
    const sp_slice *s = w->by_step[i];
    if (!task_of(w, s)->host || strcmp(task_of(w, s)->what, "collect")) continue;
    if (s->loop != loop) n = 0;
    loop = s->loop;
    size_t most = n < RATE ? n : RATE;
    double since = most ? times[(n - most) % RATE] : 0;
    if (most && s->end > since) put_counter(w, program, "steps/s", NULL, s->end, (double)most / (s->end - since));
    times[n++ % RATE] = s->end;
  }
}

static void put_counters(writer *w) {
  point *points = sp_calloc(2 * w->n_tasks + 1, sizeof *points);
  size_t first = 0, last;
  w->memory = w->memory && points;
  for (size_t p = 0; points && p < w->t->n_programs; p++, first = last) {
    for (last = first; last < w->n_tasks && w->by_step[last]->program == p;) last++;
    for (size_t e = 0; e < w->t->programs[p].n_edges; e++) put_edge(w, p, first, last, e, points);
    put_rate(w, p, first, last);
  }
  free(points);
}

/* What was measured last before the first slice holds when it begins. */
static void put_samples(writer *w) {
  const sp_trace *t = w->t;
  for (size_t i = 0; i < t->n_samples; i++) {
    const sp_trace_sample *s = &t->samples[i];
    if (s->time < w->zero && i + 1 < t->n_samples && s[1].time < w->zero) continue;
    for (size_t k = 0; k < t->n_counters; k++)
      if (!isnan(s->values[k]))
        put_counter(w, 0, t->counters[k], NULL, s->time < w->zero ? w->zero : s->time, s->values[k]);
  }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Of the program of the training, which is the first: the number of its first loop, 0: there is none. */
static uint32_t training_loop(const writer *w) {
  for (size_t i = 0; i < w->n; i++)
    if (w->in_time[i]->program == 0 && w->in_time[i]->kind == SP_SLICE_TASK) return w->in_time[i]->loop;
  return 0;
}

static void put_head(writer *w) {
  static const sp_trace_program none = {.strategy = "", .device = "", .capture = ""};
  const sp_trace *t = w->t;
  const sp_trace_program *p = t->n_programs ? &t->programs[0] : &none;
  fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"writer\":\"spcore\",\"version\":1", w->f);
  put_field(w, "strategy", p->strategy);
  put_field(w, "device", p->device);
  put_field(w, "capture", p->capture);
  if (p->single) put_field(w, "no_single_calls", p->single);
  if (t->no_counters) put_field(w, "no_counters", t->no_counters);
  if (t->n_windows) fprintf(w->f, ",\"first_step\":%" PRIu64 ",\"last_step\":%" PRIu64, t->first, t->last);
  uint32_t loop = training_loop(w);
  if (loop) fprintf(w->f, ",\"loop\":%u", loop);
  fprintf(w->f, ",\"began\":%.6f", w->zero); /* by the clock of the host */
  fprintf(w->f, ",\"kept\":%zu,\"dropped\":%zu},\"traceEvents\":[\n", w->n, sp_trace_dropped(t));
  fputs("{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"spcore\"}}", w->f);
}

static void put_all(writer *w) {
  number_tracks(w);
  put_head(w);
  put_tracks(w);
  for (size_t i = 0; i < w->n; i++) put_slice(w, w->in_time[i]);
  put_arrows(w);
  put_counters(w);
  put_samples(w);
  fputs("\n]}\n", w->f);
}

static int close_file(writer *w, char *temporary, sp_err *err) {
  const char *path = w->t->path;
  int why = ferror(w->f) ? EIO : 0;
  if (fclose(w->f)) why = errno;
  if (!why && w->memory && temporary && rename(temporary, path)) why = errno;
  if ((why || !w->memory) && temporary) unlink(temporary);
  if (!w->memory) return sp_nomem(err, w->n * sizeof *w->in_time, "the trace's file");
  return why ? failed(path, why, err) : SP_OK;
}

int sp_trace_put_file(sp_trace *t, sp_err *err) {
  writer w = {.t = t, .memory = true};
  char *temporary;
  if (sp_trace_calls(t, err)) return err->status;
  if (!(w.f = open_file(t->path, &temporary))) return failed(t->path, errno, err);
  w.memory = sort(&w);
  if (w.memory) put_all(&w);
  int st = close_file(&w, temporary, err);
  if (!st && w.backward)
    sp_log(SP_LOG_WARN, "%s: %zu arrows are left out: by the clocks of two devices they would point backwards", t->path,
           w.backward);
  for (size_t i = 0; i < w.n_tracks; i++) free(w.tracks[i]);
  free(w.tracks);
  free(w.in_time);
  free(w.by_step);
  free(temporary);
  return st;
}
