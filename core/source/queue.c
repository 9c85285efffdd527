/* SPDX-License-Identifier: MIT
 * queue.c - see queue.h. A slot holds a request from submit() until its answer; those that wait are in a ring in the
 * order in which they came. A slot keeps its memory for the next request of that size,
 * so that a server of samples allocates nothing.
 *
 * What bounds the queue is what requests use that are open. What idle slots keep counts too, but it gives way: it is
 * freed before a request is refused. So a request that fits an empty queue is accepted by an empty queue,
 * whatever was before. */
#include "source/queue.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spec.h"
#include "base/text.h"
#include "base/util.h"
#include "source/histogram.h"

/* LEAVING: out of the ring, and about to be told why; TAKEN: a step reads it. */
typedef enum { FREE, FILLING, WAITING, LEAVING, TAKEN } slot_state;

#define GENERATIONS \
  ((UINT64_C(1) << 24) - 1) /* so many that an id, which has them above its 40 bits, is never SP_NO_REQUEST */
#define SLOT_BITS 40

typedef struct slot {
  slot_state state;
  bool cancelled;
  bool told; /* TAKEN, and its deadline came first: it is answered, but its step still reads it */
  uint64_t generation;
  void *memory; /* of `bytes`: those of the request, or where the slot is idle of the last one */
  size_t bytes;
  sp_part *parts; /* [q->max_parts] into memory */
  uint32_t n_parts, form;
  char name[SP_REQUEST_NAME];
  double submitted, taken, deadline; /* sp_now(); deadline INFINITY: none */
  int status;                        /* of a rejected one */
  char *words;
  void (*answer)(void *arg, const sp_answer *answer);
  void *arg;
  struct slot *next;            /* of those that are told why not */
  struct slot *before, *behind; /* of those with a deadline that steps have */
} slot;

struct sp_queue {
  sp_queue_opts o;
  pthread_mutex_t lock;
  pthread_cond_t wake;                   /* the loop's thread */
  bool sleeping, begins, opened, closed; /* begins: what is due wakes it too */
  double until;                          /* of its sleep */
  uint32_t attached;
  size_t part_bytes[SP_QUEUE_MAX_PARTS], n_parts, max_parts;
  uint64_t most; /* not 0: one part of so many bytes at most */
  slot *slots;
  uint32_t *idle, n_idle;           /* free slots, the last used on top */
  uint32_t *ring, first, n_waiting; /* slots that wait */
  uint32_t n_marked;                /* of them cancelled */
  slot *timed;                      /* those with a deadline that steps have */
  uint32_t n_told;                  /* slots that steps read, and that are answered */
  double next_deadline;             /* nothing is late before */
  size_t used, kept; /* bytes of requests that are open; that idle slots keep. Together at most o.bytes */
  sp_queue_stats counts;
  sp_histogram waited, took;
  const char *close_words;
};

/* ---- making ------------------------------------------------------------------------------------------------------ */

static int make_locks(sp_queue *q) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&q->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  int failed = pthread_cond_init(&q->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return failed;
}

int sp_queue_new(sp_queue **out, const sp_queue_opts *o, sp_err *err) {
  sp_queue *q = sp_calloc(1, sizeof *q);
  *out = NULL;
  if (!q) return sp_nomem(err, sizeof *q, "a queue of requests");
  q->o = *o;
  q->next_deadline = INFINITY;
  q->slots = sp_calloc(o->capacity, sizeof *q->slots);
  q->idle = sp_calloc(o->capacity, sizeof *q->idle);
  q->ring = sp_calloc(o->capacity, sizeof *q->ring);
  bool made = q->slots && q->idle && q->ring && !make_locks(q);
  if (!made) {
    free(q->slots);
    free(q->idle);
    free(q->ring);
    free(q);
    return sp_nomem(err, o->capacity * sizeof(slot), "a queue of requests");
  }
  for (uint32_t i = 0; i < o->capacity; i++) q->idle[i] = o->capacity - 1 - i;
  q->n_idle = o->capacity;
  *out = q;
  return SP_OK;
}

void sp_queue_free(sp_queue *q) {
  if (!q) return;
  sp_queue_close(q, SP_E_CANCELLED, "the graph was closed");
  for (uint32_t i = 0; i < q->o.capacity; i++) {
    free(q->slots[i].memory);
    free(q->slots[i].parts);
    free(q->slots[i].words);
  }
  pthread_cond_destroy(&q->wake);
  pthread_mutex_destroy(&q->lock);
  free(q->slots);
  free(q->idle);
  free(q->ring);
  free(q);
}

int sp_queue_open(sp_queue *q, const size_t *part_bytes, size_t n_parts, uint64_t most, sp_err *err) {
  if (n_parts < 1 || n_parts > SP_QUEUE_MAX_PARTS)
    return sp_fail(err, SP_E_RANGE, "a request of %zu parts: 1 to %d are possible", n_parts, SP_QUEUE_MAX_PARTS);
  pthread_mutex_lock(&q->lock);
  memcpy(q->part_bytes, part_bytes, n_parts * sizeof *part_bytes);
  q->n_parts = most ? 1 : n_parts;
  q->max_parts = n_parts;
  q->most = most;
  q->opened = true;
  pthread_mutex_unlock(&q->lock);
  return SP_OK;
}

/* ---- submitting -------------------------------------------------------------------------------------------------- */

static int SP_PRINTF(4, 5) refuse(char *why, size_t n, int status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (n) vsnprintf(why, n, fmt, ap);
  va_end(ap);
  return status;
}

static int check_parts(const sp_queue *q, const sp_request *r, size_t *bytes, char *why, size_t n) {
  *bytes = 0;
  if (r->n_parts != q->n_parts || !r->parts)
    return refuse(why, n, SP_E_INVALID, "a request of %u parts, where %zu are wanted", r->n_parts, q->n_parts);
  for (size_t i = 0; i < q->n_parts; i++) {
    const sp_part *p = &r->parts[i];
    if (q->most ? !p->bytes || p->bytes > q->most : p->bytes != q->part_bytes[i])
      return refuse(why, n, SP_E_RANGE, "a request of %zu bytes, where %s%llu are wanted", p->bytes,
                    q->most ? "1 to " : "", (unsigned long long)(q->most ? q->most : q->part_bytes[i]));
    if (!p->data) return refuse(why, n, SP_E_INVALID, "part %zu of the request has no bytes", i + 1);
    *bytes += (p->bytes + 15) / 16 * 16;
  }
  if (r->name && strlen(r->name) >= SP_REQUEST_NAME)
    return refuse(why, n, SP_E_RANGE, "the request's name has %zu bytes; at most %d are possible", strlen(r->name),
                  SP_REQUEST_NAME - 1);
  if (!r->answer) return refuse(why, n, SP_E_INVALID, "the request has nobody to answer to");
  return SP_OK;
}

static void drop_memory(slot *s) {
  free(s->memory);
  s->memory = NULL;
  s->bytes = 0;
}

/* Idle slots keep at most so many bytes from now on. Those used last are on top, and keep theirs longest. Locked. */
static void keep_at_most(sp_queue *q, size_t most) {
  for (uint32_t i = 0; i < q->n_idle && q->kept > most; i++) {
    slot *s = &q->slots[q->idle[i]];
    q->kept -= s->bytes;
    drop_memory(s);
  }
}

/* A free slot with the memory promised to it: its own if it has just as much, else none yet. Locked. */
static int reserve(sp_queue *q, size_t bytes, slot **out, char *why, size_t n) {
  if (q->closed) return refuse(why, n, SP_E_STATE, "the queue is closed: %s", q->close_words);
  if (bytes > q->o.bytes)
    return refuse(
        why, n, SP_E_RANGE,
        "a request of %zu bytes is larger than the whole queue of %zu: give the source queue_mb = %zu or more", bytes,
        q->o.bytes, (bytes + (1 << 20) - 1) >> 20);
  const char *others = q->n_told ? ", or late ones whose step is not over," : "";
  if (!q->n_idle)
    return refuse(why, n, SP_E_FULL, "the queue is full: %u requests are not answered yet%s (queue = %u)",
                  q->o.capacity, *others ? ", or late and their step is not over" : "", q->o.capacity);
  if (bytes > q->o.bytes - q->used)
    return refuse(why, n, SP_E_FULL,
                  "the queue is full: requests that are not answered yet%s hold %zu bytes of at most %zu (queue_mb)",
                  others, q->used, q->o.bytes);
  slot *s = &q->slots[q->idle[--q->n_idle]];
  q->kept -= s->bytes;
  if (s->bytes != bytes) drop_memory(s);
  q->used += bytes;
  keep_at_most(q, q->o.bytes - q->used);
  s->state = FILLING;
  *out = s;
  return SP_OK;
}

static bool fill(const sp_queue *q, slot *s, size_t bytes, const sp_request *r) {
  if (!s->memory && posix_memalign(&s->memory, 64, bytes)) s->memory = NULL;
  if (!s->parts) s->parts = sp_calloc(q->max_parts, sizeof *s->parts);
  if (!s->memory || !s->parts) {
    drop_memory(s);
    return false;
  }
  char *at = s->memory;
  s->bytes = bytes;
  for (uint32_t i = 0; i < r->n_parts; i++) {
    memcpy(at, r->parts[i].data, r->parts[i].bytes);
    s->parts[i] = (sp_part){at, r->parts[i].bytes};
    at += (r->parts[i].bytes + 15) / 16 * 16;
  }
  s->n_parts = r->n_parts;
  s->form = r->form;
  snprintf(s->name, sizeof s->name, "%s", r->name ? r->name : "");
  return true;
}

static uint64_t id_of(const sp_queue *q, const slot *s) {
  return s->generation % GENERATIONS << SLOT_BITS | (uint64_t)(s - q->slots);
}

/* The slot of an id, if it still is that request's. */
static slot *find(const sp_queue *q, uint64_t id) {
  uint64_t i = id & ((UINT64_C(1) << SLOT_BITS) - 1);
  if (id == SP_NO_REQUEST || i >= q->o.capacity) return NULL;
  slot *s = &q->slots[i];
  return s->generation % GENERATIONS == id >> SLOT_BITS ? s : NULL;
}

/* It is not among those with a deadline that steps have. Locked. */
static void forget_deadline(sp_queue *q, slot *s) {
  if (s->before) s->before->behind = s->behind;
  else if (q->timed == s) q->timed = s->behind;
  if (s->behind) s->behind->before = s->before;
  s->before = s->behind = NULL;
}

static void keep_deadline(sp_queue *q, slot *s) {
  if (s->deadline == INFINITY) return;
  s->behind = q->timed;
  if (q->timed) q->timed->before = s;
  q->timed = s;
}

/* `bytes`: what it was promised. Locked. */
static void put_back(sp_queue *q, slot *s, size_t bytes) {
  forget_deadline(q, s);
  s->state = FREE;
  s->told = false;
  s->generation++;
  q->used -= bytes;
  q->kept += s->bytes;
  q->idle[q->n_idle++] = (uint32_t)(s - q->slots);
}

static void wake(sp_queue *q) {
  if (q->sleeping) pthread_cond_signal(&q->wake);
}

/* While no step may begin, a request that comes only wakes it for an earlier deadline, or as it fills a batch. */
static void wake_for(sp_queue *q, const slot *s) {
  if (q->begins || s->deadline < q->until || q->n_waiting == q->o.batch) wake(q);
}

int sp_queue_submit(sp_queue *q, const sp_request *r, uint64_t *ticket, char *why, size_t n) {
  slot *s = NULL;
  size_t bytes = 0;
  pthread_mutex_lock(&q->lock);
  int st = q->opened ? check_parts(q, r, &bytes, why, n)
                     : refuse(why, n, SP_E_STATE, "the queue is not open before the graph is complete");
  if (!st) st = reserve(q, bytes, &s, why, n);
  if (st) q->counts.refused++;
  pthread_mutex_unlock(&q->lock);
  if (st) return st;
  bool filled = fill(q, s, bytes, r);
  double now = sp_now();
  int64_t us = r->deadline_us ? r->deadline_us : q->o.deadline_us;
  pthread_mutex_lock(&q->lock);
  if (!filled || q->closed) {
    q->counts.refused++;
    put_back(q, s, bytes);
    st = filled ? refuse(why, n, SP_E_STATE, "the queue is closed: %s", q->close_words)
                : refuse(why, n, SP_E_NOMEM, "no memory for a request of %zu bytes", bytes);
    pthread_mutex_unlock(&q->lock);
    return st;
  }
  s->answer = r->answer;
  s->arg = r->arg;
  s->submitted = now;
  s->deadline = us > 0 ? now + (double)us * 1e-6 : INFINITY;
  s->cancelled = false;
  s->status = SP_OK;
  s->state = WAITING;
  if (s->deadline < q->next_deadline) q->next_deadline = s->deadline;
  if (ticket) *ticket = id_of(q, s);
  q->ring[(q->first + q->n_waiting++) % q->o.capacity] = (uint32_t)(s - q->slots);
  q->counts.accepted++;
  wake_for(q, s);
  pthread_mutex_unlock(&q->lock);
  return SP_OK;
}

int sp_queue_cancel(sp_queue *q, uint64_t ticket) {
  int st = SP_OK;
  pthread_mutex_lock(&q->lock);
  slot *s = find(q, ticket);
  if (!s || (s->state != WAITING && s->state != TAKEN) || s->told || s->cancelled) st = SP_E_NOTFOUND;
  else if (s->state == TAKEN) st = SP_E_STATE;
  else {
    s->cancelled = true;
    q->n_marked++;
    wake(q);
  }
  pthread_mutex_unlock(&q->lock);
  return st;
}

void sp_queue_attach(sp_queue *q) {
  pthread_mutex_lock(&q->lock);
  q->attached++;
  pthread_mutex_unlock(&q->lock);
}

void sp_queue_detach(sp_queue *q) {
  pthread_mutex_lock(&q->lock);
  if (q->attached) q->attached--;
  wake(q);
  pthread_mutex_unlock(&q->lock);
}

/* ---- answering --------------------------------------------------------------------------------------------------- */

static void count(sp_queue *q, const sp_answer *a) {
  uint64_t *of = a->status == SP_OK            ? &q->counts.done
                 : a->status == SP_E_CANCELLED ? &q->counts.cancelled
                 : a->status == SP_E_LATE      ? &q->counts.late
                                               : &q->counts.failed;
  ++*of;
  if (a->status) return;
  sp_histogram_add(&q->waited, a->waited);
  sp_histogram_add(&q->took, a->took);
}

/* Locked. */
static char *let_go(sp_queue *q, slot *s) {
  char *words = s->words;
  s->words = NULL;
  put_back(q, s, s->bytes);
  return words;
}

/* The slot is free again before the answer is given: who gets it may submit the next one. But where `kept` a step still
 * reads it, and may yet reject it. Not locked. */
static void give(sp_queue *q, slot *s, sp_answer a, bool kept) {
  double now = sp_now();
  char *words = NULL;
  a.size = sizeof a;
  a.took = now - s->submitted;
  a.waited = (s->state == TAKEN ? s->taken : now) - s->submitted;
  void (*answer)(void *, const sp_answer *) = s->answer;
  void *arg = s->arg;
  if (!kept && s->status)
    a = (sp_answer){.size = a.size, .status = s->status, .error = s->words, .took = a.took, .waited = a.waited};
  pthread_mutex_lock(&q->lock);
  a.ticket = id_of(q, s);
  count(q, &a);
  if (!kept) words = let_go(q, s);
  pthread_mutex_unlock(&q->lock);
  answer(arg, &a);
  free(words);
}

typedef struct gone {
  slot *first, **last;
  double next_deadline;
} gone;

static void add_gone(gone *g, slot *s) {
  *g->last = s;
  g->last = &s->next;
}

/* Those that wait and are cancelled or late, out of the ring, in order. Locked. */
static void gather_waiting(sp_queue *q, double now, gone *g) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < q->n_waiting; i++) {
    slot *s = &q->slots[q->ring[(q->first + i) % q->o.capacity]];
    if (!s->cancelled && s->deadline > now) {
      q->ring[(q->first + kept++) % q->o.capacity] = (uint32_t)(s - q->slots);
      if (s->deadline < g->next_deadline) g->next_deadline = s->deadline;
      continue;
    }
    s->state = LEAVING; /* it cannot be cancelled any more */
    add_gone(g, s);
  }
  q->n_waiting = kept;
  q->n_marked = 0;
}

/* Those that a step has, and that are late. Locked. */
static void gather_taken(sp_queue *q, double now, gone *g) {
  for (slot *s = q->timed, *behind; s; s = behind) {
    behind = s->behind;
    if (s->deadline > now) {
      if (s->deadline < g->next_deadline) g->next_deadline = s->deadline;
      continue;
    }
    forget_deadline(q, s);
    s->told = true;
    q->n_told++;
    add_gone(g, s);
  }
}

/* Locked. */
static slot *gather_gone(sp_queue *q, double now) {
  gone g = {.last = &g.first, .next_deadline = INFINITY};
  if (!q->n_marked && now < q->next_deadline) return NULL;
  gather_taken(q, now, &g);
  gather_waiting(q, now, &g);
  q->next_deadline = g.next_deadline;
  *g.last = NULL;
  return g.first;
}

static uint32_t tell(sp_queue *q, slot *first) {
  uint32_t n = 0;
  for (slot *s = first, *next; s; s = next, n++) {
    next = s->next;
    bool taken = s->state == TAKEN;
    give(q, s,
         (sp_answer){.status = s->cancelled ? SP_E_CANCELLED : SP_E_LATE,
                     .error = s->cancelled ? "the request was cancelled"
                              : taken      ? "its step was not over before its deadline"
                                           : "no step took it before its deadline"},
         taken);
  }
  return n;
}

uint32_t sp_queue_expire(sp_queue *q) {
  pthread_mutex_lock(&q->lock);
  slot *first = gather_gone(q, sp_now());
  pthread_mutex_unlock(&q->lock);
  return tell(q, first);
}

/* A step is over with one that was late. */
static void drop(sp_queue *q, slot *s) {
  pthread_mutex_lock(&q->lock);
  q->n_told--;
  char *words = let_go(q, s);
  pthread_mutex_unlock(&q->lock);
  free(words);
}

void sp_queue_answer(sp_queue *q, const uint64_t *ids, uint32_t n, uint64_t step, const sp_tensor *results,
                     const char *const *names, uint32_t n_results) {
  sp_tensor own[SP_QUEUE_MAX_PARTS];
  sp_queue_expire(q); /* a deadline that has passed is missed, whether or not somebody has looked since */
  for (uint32_t i = 0; i < n; i++) {
    slot *s = &q->slots[ids[i] & ((UINT64_C(1) << SLOT_BITS) - 1)];
    for (uint32_t k = 0; k < n_results; k++) {
      own[k].spec = sp_spec_sample(&results[k].spec);
      own[k].data = (char *)results[k].data + i * (size_t)sp_spec_bytes(&own[k].spec);
    }
    if (s->told) drop(q, s);
    else give(q, s, (sp_answer){.step = step, .results = own, .names = names, .n_results = n_results}, false);
  }
}

/* Slots that are being filled just now see that it is closed when they are. */
void sp_queue_close(sp_queue *q, int status, const char *why) {
  pthread_mutex_lock(&q->lock);
  bool before = q->closed;
  if (!before) q->close_words = why;
  q->closed = true;
  q->n_waiting = q->n_marked = 0;
  pthread_mutex_unlock(&q->lock);
  for (uint32_t i = 0; i < q->o.capacity && !before; i++) {
    pthread_mutex_lock(&q->lock);
    bool open = q->slots[i].state == WAITING || (q->slots[i].state == TAKEN && !q->slots[i].told);
    pthread_mutex_unlock(&q->lock);
    if (open) give(q, &q->slots[i], (sp_answer){.status = status, .error = why}, false);
  }
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static slot *oldest(const sp_queue *q) { return &q->slots[q->ring[q->first % q->o.capacity]]; }

/* When the oldest has waited long enough; locked, something waits. */
static double due_at(const sp_queue *q) { return oldest(q)->submitted + (double)q->o.wait_us * 1e-6; }

static bool due(const sp_queue *q, double now) {
  return q->n_waiting >= q->o.batch || (q->n_waiting && (!q->attached || !q->o.wait_us || now >= due_at(q)));
}

uint32_t sp_queue_take(sp_queue *q, uint64_t *ids, uint32_t *told) {
  double now = sp_now();
  uint32_t n = 0;
  pthread_mutex_lock(&q->lock);
  slot *leaving = gather_gone(q, now);
  if (due(q, now)) n = q->n_waiting < q->o.batch ? q->n_waiting : q->o.batch;
  for (uint32_t i = 0; i < n; i++) {
    slot *s = oldest(q);
    s->state = TAKEN;
    s->taken = now;
    keep_deadline(q, s);
    ids[i] = id_of(q, s);
    q->first = (q->first + 1) % q->o.capacity;
    q->n_waiting--;
  }
  if (n) q->counts.steps++;
  pthread_mutex_unlock(&q->lock);
  uint32_t n_gone = tell(q, leaving);
  if (told) *told = n_gone;
  for (uint32_t i = n; n && i < q->o.batch; i++) ids[i] = SP_NO_REQUEST;
  return n;
}

bool sp_queue_over(sp_queue *q) {
  pthread_mutex_lock(&q->lock);
  bool over = q->closed || (!q->n_waiting && !q->attached);
  pthread_mutex_unlock(&q->lock);
  return over;
}

bool sp_queue_has_room(sp_queue *q) {
  pthread_mutex_lock(&q->lock);
  bool room = q->n_idle > 0 && !q->closed;
  pthread_mutex_unlock(&q->lock);
  return room;
}

bool sp_queue_full(sp_queue *q) {
  pthread_mutex_lock(&q->lock);
  bool full = q->n_waiting >= q->o.batch;
  pthread_mutex_unlock(&q->lock);
  return full;
}

bool sp_queue_due(sp_queue *q) {
  pthread_mutex_lock(&q->lock);
  bool now_due = due(q, sp_now());
  pthread_mutex_unlock(&q->lock);
  return now_due;
}

/* Locked. */
static bool has_work(const sp_queue *q, double now, bool begins) {
  if (q->n_marked || now >= q->next_deadline || q->closed) return true;
  return begins && (due(q, now) || (!q->n_waiting && !q->attached));
}

/* Until q->until, locked. */
static void sleep_on(sp_queue *q, double now) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  int64_t ns = (int64_t)((q->until - now) * 1e9) + at.tv_nsec;
  at.tv_sec += (time_t)(ns / 1000000000);
  at.tv_nsec = (long)(ns % 1000000000);
  q->sleeping = true;
  pthread_cond_timedwait(&q->wake, &q->lock, &at);
  q->sleeping = false;
}

void sp_queue_wait(sp_queue *q, double seconds, bool begins) {
  double now = sp_now();
  pthread_mutex_lock(&q->lock);
  if (!has_work(q, now, begins)) {
    q->begins = begins;
    q->until = now + seconds;
    if (begins && q->n_waiting && due_at(q) < q->until) q->until = due_at(q);
    if (q->next_deadline < q->until) q->until = q->next_deadline;
    sleep_on(q, now);
  }
  pthread_mutex_unlock(&q->lock);
}

/* ---- calls of a step --------------------------------------------------------------------------------------------- */

/* What was taken stays as it is until its step is over, so that nothing of it is locked. */
const sp_part *sp_queue_parts(sp_queue *q, uint64_t id, uint32_t *n, uint32_t *form) {
  const slot *s = find(q, id);
  if (!s || s->state != TAKEN || s->status) return NULL;
  if (n) *n = s->n_parts;
  if (form) *form = s->form;
  return s->parts;
}

const char *sp_queue_name(sp_queue *q, uint64_t id) {
  const slot *s = find(q, id);
  return s && s->state == TAKEN ? s->name : "";
}

void sp_queue_reject(sp_queue *q, uint64_t id, int status, const char *words) {
  slot *s = find(q, id);
  if (!s || s->state != TAKEN || s->status) return;
  s->words = sp_strdup(words ? words : "");
  s->status = status ? status : SP_E_INTERNAL;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static sp_queue_times times(const sp_histogram *h) {
  return (sp_queue_times){.mean = h->n ? h->sum / (double)h->n : NAN,
                          .max = h->n ? h->max : NAN,
                          .p50 = sp_histogram_quantile(h, 0.5),
                          .p90 = sp_histogram_quantile(h, 0.9),
                          .p99 = sp_histogram_quantile(h, 0.99),
                          .p999 = sp_histogram_quantile(h, 0.999)};
}

void sp_queue_get_stats(sp_queue *q, sp_queue_stats *out) {
  pthread_mutex_lock(&q->lock);
  *out = q->counts;
  out->open = out->accepted - out->done - out->failed - out->cancelled - out->late;
  out->bytes = q->used + q->kept;
  out->waited = times(&q->waited);
  out->took = times(&q->took);
  pthread_mutex_unlock(&q->lock);
}

void sp_queue_clear_stats(sp_queue *q) {
  pthread_mutex_lock(&q->lock);
  const sp_queue_stats *c = &q->counts;
  q->counts = (sp_queue_stats){.accepted = c->accepted - c->done - c->failed - c->cancelled - c->late};
  memset(&q->waited, 0, sizeof q->waited);
  memset(&q->took, 0, sizeof q->took);
  pthread_mutex_unlock(&q->lock);
}

bool sp_queue_bin(sp_queue *q, size_t *at, double *from, double *to, uint64_t *n) {
  pthread_mutex_lock(&q->lock);
  while (*at < SP_HIST_BINS && !q->took.bins[*at]) ++*at;
  bool any = *at < SP_HIST_BINS;
  if (any) {
    *n = q->took.bins[*at];
    *from = sp_histogram_from(*at);
    *to = sp_histogram_from(++*at);
  }
  pthread_mutex_unlock(&q->lock);
  return any;
}
