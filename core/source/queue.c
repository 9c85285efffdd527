/* SPDX-License-Identifier: MIT
 * queue.c - see queue.h. A slot holds a request from submit() until its answer; those that wait are in a ring in the
 * order in which they came. A slot keeps its memory for the next request of that size,
 * so that a server of samples allocates nothing.
 *
 * What bounds the queue is what requests use that are open. What idle slots keep counts too, but it gives way: it is
 * freed before a request is refused. So a request that fits an empty queue is accepted by an empty queue,
 * whatever was before. */
#include "source/queue_slot.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spec.h"
#include "base/text.h"
#include "base/util.h"

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
    return sp_nomem(err, o->capacity * sizeof(sp_slot), "a queue of requests");
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

static void drop_memory(sp_slot *s) {
  free(s->memory);
  s->memory = NULL;
  s->bytes = 0;
}

/* Idle slots keep at most so many bytes from now on. Those used last are on top, and keep theirs longest. Locked. */
static void keep_at_most(sp_queue *q, size_t most) {
  for (uint32_t i = 0; i < q->n_idle && q->kept > most; i++) {
    sp_slot *s = &q->slots[q->idle[i]];
    q->kept -= s->bytes;
    drop_memory(s);
  }
}

/* A free slot with the memory promised to it: its own if it has just as much, else none yet. Locked. */
static int reserve(sp_queue *q, size_t bytes, sp_slot **out, char *why, size_t n) {
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
  sp_slot *s = &q->slots[q->idle[--q->n_idle]];
  q->kept -= s->bytes;
  if (s->bytes != bytes) drop_memory(s);
  q->used += bytes;
  keep_at_most(q, q->o.bytes - q->used);
  s->state = SP_SLOT_FILLING;
  *out = s;
  return SP_OK;
}

static bool fill(const sp_queue *q, sp_slot *s, size_t bytes, const sp_request *r) {
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

static void wake(sp_queue *q) {
  if (q->sleeping) pthread_cond_signal(&q->wake);
}

/* While no step may begin, a request that comes only wakes it for an earlier deadline, or as it fills a batch. */
static void wake_for(sp_queue *q, const sp_slot *s) {
  if (q->begins || s->deadline < q->until || q->n_waiting == q->o.batch) wake(q);
}

int sp_queue_submit(sp_queue *q, const sp_request *r, uint64_t *ticket, char *why, size_t n) {
  sp_slot *s = NULL;
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
    sp_queue_put_back(q, s, bytes);
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
  s->state = SP_SLOT_WAITING;
  if (s->deadline < q->next_deadline) q->next_deadline = s->deadline;
  if (ticket) *ticket = sp_queue_id(q, s);
  q->ring[(q->first + q->n_waiting++) % q->o.capacity] = (uint32_t)(s - q->slots);
  q->counts.accepted++;
  wake_for(q, s);
  pthread_mutex_unlock(&q->lock);
  return SP_OK;
}

int sp_queue_cancel(sp_queue *q, uint64_t ticket) {
  int st = SP_OK;
  pthread_mutex_lock(&q->lock);
  sp_slot *s = sp_queue_find(q, ticket);
  if (!s || (s->state != SP_SLOT_WAITING && s->state != SP_SLOT_TAKEN) || s->told || s->cancelled) st = SP_E_NOTFOUND;
  else if (s->state == SP_SLOT_TAKEN) st = SP_E_STATE;
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

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static sp_slot *oldest(const sp_queue *q) { return &q->slots[q->ring[q->first % q->o.capacity]]; }

/* When the oldest has waited long enough; locked, something waits. */
static double due_at(const sp_queue *q) { return oldest(q)->submitted + (double)q->o.wait_us * 1e-6; }

static bool due(const sp_queue *q, double now) {
  return q->n_waiting >= q->o.batch || (q->n_waiting && (!q->attached || !q->o.wait_us || now >= due_at(q)));
}

uint32_t sp_queue_take(sp_queue *q, uint64_t *ids, uint32_t *told) {
  double now = sp_now();
  uint32_t n = 0;
  pthread_mutex_lock(&q->lock);
  sp_slot *leaving = sp_queue_gather(q, now);
  if (due(q, now)) n = q->n_waiting < q->o.batch ? q->n_waiting : q->o.batch;
  for (uint32_t i = 0; i < n; i++) {
    sp_slot *s = oldest(q);
    s->state = SP_SLOT_TAKEN;
    s->taken = now;
    sp_queue_keep_deadline(q, s);
    ids[i] = sp_queue_id(q, s);
    q->first = (q->first + 1) % q->o.capacity;
    q->n_waiting--;
  }
  if (n) q->counts.steps++;
  pthread_mutex_unlock(&q->lock);
  uint32_t n_gone = sp_queue_tell(q, leaving);
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
  const sp_slot *s = sp_queue_find(q, id);
  if (!s || s->state != SP_SLOT_TAKEN || s->status) return NULL;
  if (n) *n = s->n_parts;
  if (form) *form = s->form;
  return s->parts;
}

const char *sp_queue_name(sp_queue *q, uint64_t id) {
  const sp_slot *s = sp_queue_find(q, id);
  return s && s->state == SP_SLOT_TAKEN ? s->name : "";
}

void sp_queue_reject(sp_queue *q, uint64_t id, int status, const char *words) {
  sp_slot *s = sp_queue_find(q, id);
  if (!s || s->state != SP_SLOT_TAKEN || s->status) return;
  s->words = sp_strdup(words ? words : "");
  s->status = status ? status : SP_E_INTERNAL;
}
