/* SPDX-License-Identifier: MIT
 * races.c - vector clocks of streams and of the host, and the history of byte ranges. */
#include "hand/races.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

typedef struct clock {
  uint64_t *at; /* [thread] that many of its operations are over; threads from n on: none */
  size_t n, cap;
} clock;

typedef struct a_thread {
  char *name;
  clock now; /* of what is submitted next; its own component: operations so far */
  bool used;
} a_thread;

typedef struct an_event {
  clock at;
  bool used;
} an_event;

typedef struct past { /* one access, kept */
  uint64_t number;
  int thread;
  uint32_t who, where; /* in `words` */
} past;

typedef struct span {
  size_t from, to;
  past write;
  past *reads; /* since then */
  size_t n_reads, cap_reads;
} span;

typedef struct a_buffer {
  char *name;
  span *spans; /* ascending, without gaps */
  size_t n, cap, bytes;
  bool used;
} a_buffer;

struct sp_races {
  bool history;
  a_thread *threads;
  size_t n_threads, cap_threads;
  an_event *events;
  size_t n_events, cap_events, free_event; /* none before it is free */
  a_buffer *buffers;
  size_t n_buffers, cap_buffers, free_buffer;
  char **words;
  size_t n_words, cap_words;
  uint32_t *slots; /* hash table of words, each plus 1 */
  size_t n_slots;
};

static int out_of_memory(sp_err *err) { return sp_nomem(err, 64, "checking for races"); }

/* ---- words ------------------------------------------------------------------------------------------------------- */

static size_t slot_of(const sp_races *r, const char *text) {
  size_t i = (size_t)sp_fnv64(SP_FNV64, text, strlen(text)) & (r->n_slots - 1);
  while (r->slots[i] && strcmp(r->words[r->slots[i] - 1], text) != 0) i = (i + 1) & (r->n_slots - 1);
  return i;
}

static bool more_slots(sp_races *r) {
  size_t n = r->n_slots ? r->n_slots * 2 : 64;
  if (r->n_words * 2 < r->n_slots) return true;
  uint32_t *slots = sp_calloc(n, sizeof *slots);
  if (!slots) return false;
  free(r->slots);
  r->slots = slots;
  r->n_slots = n;
  for (size_t i = 0; i < r->n_words; i++) r->slots[slot_of(r, r->words[i])] = (uint32_t)i + 1;
  return true;
}

/* Scripts have few lines, so each text is kept once. */
static bool keep_word(sp_races *r, const char *text, uint32_t *word) {
  if (!more_slots(r)) return false;
  size_t i = slot_of(r, text);
  if (!r->slots[i]) {
    char *copy = sp_strdup(text);
    if (!copy || !sp_grow(&r->words, &r->cap_words, r->n_words + 1, sizeof *r->words)) {
      free(copy);
      return false;
    }
    r->words[r->n_words++] = copy;
    r->slots[i] = (uint32_t)r->n_words;
  }
  *word = r->slots[i] - 1;
  return true;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

static uint64_t at(const clock *c, int thread) { return (size_t)thread < c->n ? c->at[thread] : 0; }

static bool widen(clock *c, size_t n) {
  if (n <= c->n) return true;
  if (!sp_grow(&c->at, &c->cap, n, sizeof *c->at)) return false;
  memset(c->at + c->n, 0, (n - c->n) * sizeof *c->at);
  c->n = n;
  return true;
}

static bool join(clock *to, const clock *from) {
  if (!widen(to, from->n)) return false;
  for (size_t i = 0; i < from->n; i++)
    if (from->at[i] > to->at[i]) to->at[i] = from->at[i];
  return true;
}

static clock *host(sp_races *r) { return &r->threads[SP_RACES_HOST].now; }

/* What is submitted to a thread comes behind what the host knows. */
static bool submit(sp_races *r, int thread) {
  return thread == SP_RACES_HOST || join(&r->threads[thread].now, host(r));
}

/* ---- threads and events ------------------------------------------------------------------------------------------ */

int sp_races_thread(sp_races *r, const char *name, int *out, sp_err *err) {
  size_t i = 0;
  while (i < r->n_threads && r->threads[i].used) i++;
  if (i == r->n_threads && !sp_grow(&r->threads, &r->cap_threads, i + 1, sizeof *r->threads)) return out_of_memory(err);
  if (i == r->n_threads) r->threads[r->n_threads++] = (a_thread){0};
  a_thread *t = &r->threads[i];
  char *copy = sp_strdup(name);
  if (!copy || !widen(&t->now, i + 1)) {
    free(copy);
    return out_of_memory(err);
  }
  free(t->name);
  t->name = copy;
  t->used = true;
  *out = (int)i;
  return SP_OK;
}

int sp_races_end_thread(sp_races *r, int thread, sp_err *err) {
  int st = sp_races_sync(r, thread, err);
  r->threads[thread].used = false;
  return st;
}

int sp_races_event(sp_races *r, int *out, sp_err *err) {
  size_t i = r->free_event;
  while (i < r->n_events && r->events[i].used) i++;
  if (i == r->n_events && !sp_grow(&r->events, &r->cap_events, i + 1, sizeof *r->events)) return out_of_memory(err);
  if (i == r->n_events) r->events[r->n_events++] = (an_event){0};
  r->events[i].used = true;
  r->free_event = i + 1;
  r->events[i].at.n = 0;
  *out = (int)i;
  return SP_OK;
}

void sp_races_end_event(sp_races *r, int event) {
  r->events[event].used = false;
  if ((size_t)event < r->free_event) r->free_event = (size_t)event;
}

int sp_races_record(sp_races *r, int event, int thread, sp_err *err) {
  clock *e = &r->events[event].at;
  if (!submit(r, thread)) return out_of_memory(err);
  e->n = 0;
  return join(e, &r->threads[thread].now) ? SP_OK : out_of_memory(err);
}

int sp_races_wait(sp_races *r, int thread, int event, sp_err *err) {
  return join(&r->threads[thread].now, &r->events[event].at) ? SP_OK : out_of_memory(err);
}

int sp_races_sync(sp_races *r, int thread, sp_err *err) {
  return join(host(r), &r->threads[thread].now) ? SP_OK : out_of_memory(err);
}

bool sp_races_known(const sp_races *r, int thread, uint64_t number) {
  return thread == SP_RACES_HOST || number <= at(&r->threads[SP_RACES_HOST].now, thread);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

/* The first range that ends behind `from`. */
static size_t find_span(const a_buffer *b, size_t from) {
  size_t lo = 0, hi = b->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (b->spans[mid].to <= from) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

/* Makes `at`, which lies within a range or between two, a border between two. */
static bool split(a_buffer *b, size_t at) {
  size_t i = find_span(b, at);
  if (i >= b->n || b->spans[i].from == at) return true;
  past *reads = NULL;
  size_t cap = 0;
  if (b->n >= SP_RACES_MAX_SPANS || !sp_grow(&b->spans, &b->cap, b->n + 1, sizeof *b->spans)) return false;
  span *s = &b->spans[i];
  if (s->n_reads && !sp_grow(&reads, &cap, s->n_reads, sizeof *reads)) return false;
  if (s->n_reads) memcpy(reads, s->reads, s->n_reads * sizeof *reads);
  memmove(s + 2, s + 1, (b->n - i - 1) * sizeof *s);
  s[1] = (span){at, s->to, s->write, reads, s->n_reads, cap};
  s->to = at;
  b->n++;
  return true;
}

static bool same_past(const past *a, const past *b) { return a->thread == b->thread && a->number == b->number; }

static bool same_history(const span *a, const span *b) {
  bool same = same_past(&a->write, &b->write) && a->n_reads == b->n_reads;
  for (size_t i = 0; same && i < a->n_reads; i++) same = same_past(&a->reads[i], &b->reads[i]);
  return same;
}

/* Ranges from..to - 1 that have the same history as the one before become one with it. */
static void merge(a_buffer *b, size_t from, size_t to) {
  size_t n = from > 0 ? from - 1 : 0;
  for (size_t i = n + 1; i < b->n; i++) {
    if (i <= to && same_history(&b->spans[n], &b->spans[i])) {
      b->spans[n].to = b->spans[i].to;
      free(b->spans[i].reads);
    } else {
      b->spans[++n] = b->spans[i];
    }
  }
  if (b->n) b->n = n + 1;
}

static bool note_read(span *s, const past *p, const clock *now) {
  size_t n = 0;
  for (size_t i = 0; i < s->n_reads; i++)
    if (s->reads[i].number > at(now, s->reads[i].thread)) s->reads[n++] = s->reads[i];
  s->n_reads = n;
  if (!sp_grow(&s->reads, &s->cap_reads, n + 1, sizeof *s->reads)) return false;
  s->reads[s->n_reads++] = *p;
  return true;
}

/* `now`: the clock of the thread without this access. */
static bool note(a_buffer *b, const sp_race_touch *t, const past *p, const clock *now) {
  size_t first = find_span(b, t->from), i = first;
  for (; i < b->n && b->spans[i].from < t->from + t->bytes; i++) {
    span *s = &b->spans[i];
    if (!(t->mode & SP_RACE_WRITE)) {
      if (!note_read(s, p, now)) return false;
      continue;
    }
    s->write = *p;
    s->n_reads = 0;
  }
  merge(b, first, i);
  return true;
}

/* ---- races ------------------------------------------------------------------------------------------------------- */

static bool over(const past *p, const clock *now) {
  return p->thread == SP_RACES_HOST || p->number <= at(now, p->thread);
}

static const char *verb(int mode) { return mode & SP_RACE_WRITE ? "writes" : "reads"; }

static void put_place(const sp_races *r, int thread, const char *where, sp_sb *sb) {
  if (thread == SP_RACES_HOST) sp_sb_put(sb, " on the host");
  else sp_sb_putf(sb, " on stream '%s'", r->threads[thread].name);
  if (*where) sp_sb_putf(sb, " (%s)", where);
}

static void put_cure(const sp_races *r, int thread, const past *p, sp_sb *sb) {
  const char *other = r->threads[p->thread].name, *where = r->words[p->where];
  if (thread == SP_RACES_HOST)
    sp_sb_putf(sb, "the host must wait for stream '%s', or for an event recorded on it behind %s", other,
               *where ? where : "that");
  else
    sp_sb_putf(sb, "stream '%s' must wait for an event recorded on '%s' behind %s", r->threads[thread].name, other,
               *where ? where : "that");
}

typedef struct attempt { /* an access that is about to be made */
  int thread;
  const sp_race_touch *touch;
  const char *who, *where;
} attempt;

static int refuse(const sp_races *r, const attempt *a, const past *p, int mode, const span *s, sp_err *err) {
  const a_buffer *b = &r->buffers[a->touch->buffer];
  sp_sb sb = {0};
  size_t from = s->from > a->touch->from ? s->from : a->touch->from, end = a->touch->from + a->touch->bytes;
  sp_sb_putf(&sb, "race on '%s'", b->name);
  if (from > 0 || (s->to < end ? s->to : end) < b->bytes)
    sp_sb_putf(&sb, ", bytes %zu..%zu", from, (s->to < end ? s->to : end) - 1);
  sp_sb_putf(&sb, ": %s %s it", a->who, verb(a->touch->mode));
  put_place(r, a->thread, a->where, &sb);
  sp_sb_putf(&sb, ", %s %s it", r->words[p->who], verb(mode));
  put_place(r, p->thread, r->words[p->where], &sb);
  sp_sb_put(&sb, ", and nothing orders the two: ");
  put_cure(r, a->thread, p, &sb);
  sp_fail(err, SP_E_RACE, "%s", sp_sb_str(&sb));
  sp_sb_free(&sb);
  return err->status;
}

static int check_span(const sp_races *r, const attempt *a, const span *s, const clock *now, sp_err *err) {
  if (!over(&s->write, now)) return refuse(r, a, &s->write, SP_RACE_WRITE, s, err);
  for (size_t i = 0; a->touch->mode & SP_RACE_WRITE && i < s->n_reads; i++)
    if (!over(&s->reads[i], now)) return refuse(r, a, &s->reads[i], SP_RACE_READ, s, err);
  return SP_OK;
}

static int check(const sp_races *r, const attempt *a, const clock *now, sp_err *err) {
  const a_buffer *b = &r->buffers[a->touch->buffer];
  int st = SP_OK;
  for (size_t i = find_span(b, a->touch->from); !st && i < b->n && b->spans[i].from < a->touch->from + a->touch->bytes;
       i++)
    st = check_span(r, a, &b->spans[i], now, err);
  return st;
}

static int split_for(sp_races *r, const sp_race_touch *t, sp_err *err) {
  a_buffer *b = &r->buffers[t->buffer];
  if (split(b, t->from) && split(b, t->from + t->bytes)) return SP_OK;
  if (b->n < SP_RACES_MAX_SPANS) return out_of_memory(err);
  return sp_fail(err, SP_E_RANGE, "buffer '%s' is used in more than %d pieces, too many to check for races", b->name,
                 SP_RACES_MAX_SPANS);
}

static int note_all(sp_races *r, int thread, const sp_race_touch *touch, size_t n, const char *who, const char *where,
                    sp_err *err) {
  clock *now = &r->threads[thread].now;
  past me = {.number = at(now, thread) + 1, .thread = thread};
  int st = SP_OK;
  for (size_t i = 0; i < n && !st; i++)
    if (touch[i].bytes) st = check(r, &(attempt){thread, &touch[i], who, where}, now, err);
  if (!st && (!keep_word(r, who, &me.who) || !keep_word(r, where, &me.where))) st = out_of_memory(err);
  for (size_t i = 0; i < n && !st; i++)
    if (touch[i].bytes) st = split_for(r, &touch[i], err);
  /* The writes last: what an operation both reads and writes is written. */
  for (int mode = SP_RACE_READ; mode <= SP_RACE_WRITE; mode++)
    for (size_t i = 0; i < n && !st; i++) {
      bool writes = touch[i].mode & SP_RACE_WRITE;
      if (!touch[i].bytes || writes != (mode == SP_RACE_WRITE)) continue;
      if (!note(&r->buffers[touch[i].buffer], &touch[i], &me, now)) st = out_of_memory(err);
    }
  return st;
}

int sp_races_access(sp_races *r, int thread, const sp_race_touch *touch, size_t n, const char *who, const char *where,
                    uint64_t *number, sp_err *err) {
  if (!submit(r, thread)) return out_of_memory(err);
  int st = r->history ? note_all(r, thread, touch, n, who, where, err) : SP_OK;
  if (st) return st;
  *number = ++r->threads[thread].now.at[thread];
  return SP_OK;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

int sp_races_buffer(sp_races *r, const char *name, size_t bytes, const char *where, int *out, sp_err *err) {
  size_t i = r->free_buffer;
  uint64_t ignored;
  *out = -1;
  if (!r->history) return SP_OK;
  while (i < r->n_buffers && r->buffers[i].used) i++;
  if (i == r->n_buffers && !sp_grow(&r->buffers, &r->cap_buffers, i + 1, sizeof *r->buffers)) return out_of_memory(err);
  if (i == r->n_buffers) r->buffers[r->n_buffers++] = (a_buffer){0};
  a_buffer *b = &r->buffers[i];
  *b = (a_buffer){.name = sp_strdup(name), .bytes = bytes, .used = true};
  if (!b->name || !sp_grow(&b->spans, &b->cap, 1, sizeof *b->spans)) {
    sp_races_forget_buffer(r, (int)i);
    return out_of_memory(err);
  }
  if (bytes) b->spans[b->n++] = (span){.to = bytes};
  *out = (int)i;
  r->free_buffer = i + 1;
  sp_race_touch all = {.buffer = (int)i, .mode = SP_RACE_WRITE, .bytes = bytes};
  return sp_races_access(r, SP_RACES_HOST, &all, 1, "the allocation", where, &ignored, err);
}

int sp_races_end_buffer(sp_races *r, int buffer, const char *where, sp_err *err) {
  uint64_t ignored;
  if (!r->history) return SP_OK;
  sp_race_touch all = {.buffer = buffer, .mode = SP_RACE_WRITE, .bytes = r->buffers[buffer].bytes};
  int st = sp_races_access(r, SP_RACES_HOST, &all, 1, "freeing", where, &ignored, err);
  if (!st) sp_races_forget_buffer(r, buffer);
  return st;
}

void sp_races_forget_buffer(sp_races *r, int buffer) {
  if (!r->history || buffer < 0) return;
  a_buffer *b = &r->buffers[buffer];
  for (size_t i = 0; i < b->n; i++) free(b->spans[i].reads);
  free(b->spans);
  free(b->name);
  *b = (a_buffer){0};
  if ((size_t)buffer < r->free_buffer) r->free_buffer = (size_t)buffer;
}

size_t sp_races_spans(const sp_races *r) {
  size_t n = 0;
  for (size_t i = 0; i < r->n_buffers; i++) n += r->buffers[i].n;
  return n;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

int sp_races_new(sp_races **out, bool history, sp_err *err) {
  int thread;
  sp_races *r = sp_calloc(1, sizeof *r);
  *out = NULL;
  if (!r) return out_of_memory(err);
  r->history = history;
  if (sp_races_thread(r, "host", &thread, err)) {
    sp_races_free(r);
    return err->status;
  }
  *out = r;
  return SP_OK;
}

void sp_races_free(sp_races *r) {
  if (!r) return;
  for (size_t i = 0; i < r->n_buffers; i++) sp_races_forget_buffer(r, (int)i);
  for (size_t i = 0; i < r->n_threads; i++) free(r->threads[i].now.at), free(r->threads[i].name);
  for (size_t i = 0; i < r->n_events; i++) free(r->events[i].at.at);
  for (size_t i = 0; i < r->n_words; i++) free(r->words[i]);
  free(r->buffers);
  free(r->threads);
  free(r->events);
  free(r->words);
  free(r->slots);
  free(r);
}
