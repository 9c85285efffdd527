/* SPDX-License-Identifier: MIT
 * trace.c - keeps the timing of calls and writes it as Chrome trace JSON and as a table. */
#include "host/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
  double begin, end;
  uint64_t step;
  uint32_t kind, lane; /* indices */
} call;

typedef struct kind {
  char *instance, *what;
} kind;

typedef struct lane {
  const void *key;
  char *name; /* NULL: not named */
} lane;

struct sp_trace {
  pthread_mutex_t lock; /* of everything below but path and file */
  char *path;
  FILE *file;
  call *calls;
  size_t n, max, dropped;
  kind *kinds;
  size_t n_kinds, cap_kinds;
  lane *lanes;
  size_t n_lanes, cap_lanes;
};

/* ---- keeping ----------------------------------------------------------------------------------------------------- */

int sp_trace_new(sp_trace **out, const char *path, size_t max_spans, sp_err *err) {
  *out = NULL;
  if (!max_spans || max_spans > UINT32_MAX)
    return sp_fail(err, SP_E_RANGE, "a trace of %zu calls asked for, 1 to %u are possible", max_spans, UINT32_MAX);
  sp_trace *t = sp_calloc(1, sizeof *t);
  if (!t) return sp_nomem(err, sizeof *t, "the trace");
  pthread_mutex_init(&t->lock, NULL);
  t->max = max_spans;
  t->calls = sp_calloc(max_spans, sizeof *t->calls);
  if (!t->calls || (path && !(t->path = sp_strdup(path)))) {
    sp_trace_free(t);
    return sp_nomem(err, max_spans * sizeof *t->calls, "the trace; keep fewer calls");
  }
  if (path && !(t->file = fopen(path, "w"))) {
    int why = errno;
    sp_trace_free(t);
    return sp_fail(err, SP_E_IO, "cannot write the trace '%s': %s", path, strerror(why));
  }
  *out = t;
  return SP_OK;
}

void sp_trace_free(sp_trace *t) {
  if (!t) return;
  if (t->file) fclose(t->file);
  for (size_t i = 0; i < t->n_kinds; i++) {
    free(t->kinds[i].instance);
    free(t->kinds[i].what);
  }
  for (size_t i = 0; i < t->n_lanes; i++) free(t->lanes[i].name);
  free(t->kinds);
  free(t->lanes);
  free(t->calls);
  free(t->path);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

#define NONE SIZE_MAX

static size_t kind_index(sp_trace *t, const char *instance, const char *what) {
  for (size_t i = 0; i < t->n_kinds; i++)
    if (!strcmp(t->kinds[i].instance, instance) && !strcmp(t->kinds[i].what, what)) return i;
  kind k = {sp_strdup(instance), sp_strdup(what)};
  if (!k.instance || !k.what || !sp_grow(&t->kinds, &t->cap_kinds, t->n_kinds + 1, sizeof *t->kinds)) {
    free(k.instance);
    free(k.what);
    return NONE;
  }
  t->kinds[t->n_kinds] = k;
  return t->n_kinds++;
}

static size_t lane_index(sp_trace *t, const void *key) {
  for (size_t i = 0; i < t->n_lanes; i++)
    if (t->lanes[i].key == key) return i;
  if (!sp_grow(&t->lanes, &t->cap_lanes, t->n_lanes + 1, sizeof *t->lanes)) return NONE;
  t->lanes[t->n_lanes] = (lane){.key = key};
  return t->n_lanes++;
}

void sp_trace_observe(void *trace, const sp_span *span) {
  sp_trace *t = trace;
  pthread_mutex_lock(&t->lock);
  size_t k = NONE, l = NONE;
  if (t->n < t->max && (k = kind_index(t, span->instance, span->what)) != NONE) l = lane_index(t, span->lane);
  if (l != NONE) t->calls[t->n++] = (call){span->begin, span->end, span->step, (uint32_t)k, (uint32_t)l};
  else t->dropped++;
  pthread_mutex_unlock(&t->lock);
}

void sp_trace_lane_name(sp_trace *t, const void *key, const char *name) {
  char *copy = sp_strdup(name);
  pthread_mutex_lock(&t->lock);
  size_t l = copy ? lane_index(t, key) : NONE;
  if (l != NONE) {
    free(t->lanes[l].name);
    t->lanes[l].name = copy;
  }
  pthread_mutex_unlock(&t->lock);
  if (l == NONE) free(copy);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static const char *lane_words(const sp_trace *t, size_t l, char buf[32]) {
  if (t->lanes[l].name) return t->lanes[l].name;
  snprintf(buf, 32, "lane %zu", l + 1);
  return buf;
}

static double first_begin(const sp_trace *t) {
  double first = t->n ? t->calls[0].begin : 0;
  for (size_t i = 1; i < t->n; i++)
    if (t->calls[i].begin < first) first = t->calls[i].begin;
  return first;
}

/* Names as JSON strings, made once: a trace has many calls and few names. */
static bool call_names(const sp_trace *t, sp_sb *name) {
  bool ok = true;
  for (size_t i = 0; i < t->n_kinds; i++) {
    sp_sb plain = {0};
    sp_sb_putf(&plain, "%s %s", t->kinds[i].instance, t->kinds[i].what);
    sp_sb_json(&name[i], sp_sb_str(&plain));
    ok = ok && !plain.broken && !name[i].broken;
    sp_sb_free(&plain);
  }
  return ok;
}

static bool write_lanes(const sp_trace *t) {
  bool ok = true;
  for (size_t l = 0; l < t->n_lanes; l++) {
    sp_sb name = {0};
    char buf[32];
    sp_sb_json(&name, lane_words(t, l, buf));
    fprintf(t->file, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{\"name\":%s}}", l + 1,
            sp_sb_str(&name));
    fprintf(t->file, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_sort_index\",", l + 1);
    fprintf(t->file, "\"args\":{\"sort_index\":%zu}}", l + 1);
    ok = ok && !name.broken;
    sp_sb_free(&name);
  }
  return ok;
}

int sp_trace_write(sp_trace *t, sp_err *err) {
  if (!t->file) return sp_fail(err, SP_E_STATE, "the trace has no file, or it is written already");
  double zero = first_begin(t);
  int why = 0;
  sp_sb *name = sp_calloc(t->n_kinds, sizeof *name);
  bool memory = name && call_names(t, name);
  if (memory) {
    fprintf(t->file, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"kept\":%zu,\"dropped\":%zu},\"traceEvents\":[\n",
            t->n, t->dropped);
    fputs("{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"spcore\"}}", t->file);
    memory = write_lanes(t);
    for (size_t i = 0; i < t->n && !why; i++) {
      const call *c = &t->calls[i];
      int rc =
          fprintf(t->file,
                  ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"name\":%s,\"ts\":%.3f,\"dur\":%.3f,"
                  "\"args\":{\"step\":%" PRIu64 "}}",
                  c->lane + 1, sp_sb_str(&name[c->kind]), (c->begin - zero) * 1e6, (c->end - c->begin) * 1e6, c->step);
      if (rc < 0) why = errno;
    }
    fputs("\n]}\n", t->file);
  }
  for (size_t i = 0; name && i < t->n_kinds; i++) sp_sb_free(&name[i]);
  free(name);
  if (ferror(t->file) && !why) why = EIO;
  if (fclose(t->file) && !why) why = errno;
  t->file = NULL;
  if (!memory) return sp_nomem(err, t->n_kinds * sizeof *name, "the trace's names");
  if (why) return sp_fail(err, SP_E_IO, "cannot write the trace '%s': %s", t->path, strerror(why));
  return SP_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void put_kind(const sp_trace *t, size_t k, double all, double *ms, sp_sb *out) {
  size_t n = 0;
  double total = 0;
  for (size_t i = 0; i < t->n; i++) {
    if (t->calls[i].kind != k) continue;
    ms[n] = (t->calls[i].end - t->calls[i].begin) * 1e3;
    total += ms[n++];
  }
  if (!n) return;
  qsort(ms, n, sizeof *ms, by_value);
  double median = n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  sp_sb_putf(out, "%-24s %-10s %8zu %12.3f %12.1f %6.1f%%\n", t->kinds[k].instance, t->kinds[k].what, n, median, total,
             all > 0 ? total / all * 100 : 0.0);
}

void sp_trace_summary(sp_trace *t, sp_sb *out) {
  double *ms = sp_calloc(t->n, sizeof *ms), all = 0, last = 0, first = first_begin(t);
  if (!ms) {
    out->broken = true;
    return;
  }
  for (size_t i = 0; i < t->n; i++) {
    all += (t->calls[i].end - t->calls[i].begin) * 1e3;
    if (!i || t->calls[i].end > last) last = t->calls[i].end;
  }
  sp_sb_putf(out, "%-24s %-10s %8s %12s %12s %7s\n", "stage", "call", "calls", "median ms", "total ms", "share");
  for (size_t k = 0; k < t->n_kinds; k++) put_kind(t, k, all, ms, out);
  free(ms);
  sp_sb_putf(out, "\n%-24s %8s %7s\n", "lane", "calls", "busy");
  for (size_t l = 0; l < t->n_lanes; l++) {
    size_t n = 0;
    double busy = 0;
    char buf[32];
    for (size_t i = 0; i < t->n; i++) {
      if (t->calls[i].lane != l) continue;
      busy += t->calls[i].end - t->calls[i].begin; /* calls of one lane do not overlap */
      n++;
    }
    sp_sb_putf(out, "%-24s %8zu %6.1f%%\n", lane_words(t, l, buf), n, last > first ? busy / (last - first) * 100 : 0.0);
  }
  if (t->dropped) sp_sb_putf(out, "%zu calls were not kept: the trace holds %zu\n", t->dropped, t->max);
}
