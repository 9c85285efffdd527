/* SPDX-License-Identifier: MIT
 * queue_answer.c - requests are answered: by a step, or with the reason why not; and what came of all of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/spec.h"
#include "base/util.h"
#include "source/queue_slot.h"

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
static char *let_go(sp_queue *q, sp_slot *s) {
  char *words = s->words;
  s->words = NULL;
  sp_queue_put_back(q, s, s->bytes);
  return words;
}

/* The slot is free again before the answer is given: who gets it may submit the next one. But where `kept` a step still
 * reads it, and may yet reject it. Not locked. */
static void give(sp_queue *q, sp_slot *s, sp_answer a, bool kept) {
  double now = sp_now();
  char *words = NULL;
  a.size = sizeof a;
  a.took = now - s->submitted;
  a.waited = (s->state == SP_SLOT_TAKEN ? s->taken : now) - s->submitted;
  void (*answer)(void *, const sp_answer *) = s->answer;
  void *arg = s->arg;
  if (!kept && s->status)
    a = (sp_answer){.size = a.size, .status = s->status, .error = s->words, .took = a.took, .waited = a.waited};
  pthread_mutex_lock(&q->lock);
  a.ticket = sp_queue_id(q, s);
  count(q, &a);
  if (!kept) words = let_go(q, s);
  pthread_mutex_unlock(&q->lock);
  answer(arg, &a);
  free(words);
}

typedef struct gone {
  sp_slot *first, **last;
  double next_deadline;
} gone;

static void add_gone(gone *g, sp_slot *s) {
  *g->last = s;
  g->last = &s->next;
}

/* Those that wait and are cancelled or late, out of the ring, in order. Locked. */
static void gather_waiting(sp_queue *q, double now, gone *g) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < q->n_waiting; i++) {
    sp_slot *s = &q->slots[q->ring[(q->first + i) % q->o.capacity]];
    if (!s->cancelled && s->deadline > now) {
      q->ring[(q->first + kept++) % q->o.capacity] = (uint32_t)(s - q->slots);
      if (s->deadline < g->next_deadline) g->next_deadline = s->deadline;
      continue;
    }
    s->state = SP_SLOT_LEAVING; /* it cannot be cancelled any more */
    add_gone(g, s);
  }
  q->n_waiting = kept;
  q->n_marked = 0;
}

/* Those that a step has, and that are late. Locked. */
static void gather_taken(sp_queue *q, double now, gone *g) {
  for (sp_slot *s = q->timed, *behind; s; s = behind) {
    behind = s->behind;
    if (s->deadline > now) {
      if (s->deadline < g->next_deadline) g->next_deadline = s->deadline;
      continue;
    }
    sp_queue_forget_deadline(q, s);
    s->told = true;
    q->n_told++;
    add_gone(g, s);
  }
}

/* Locked. */
sp_slot *sp_queue_gather(sp_queue *q, double now) {
  gone g = {.last = &g.first, .next_deadline = INFINITY};
  if (!q->n_marked && now < q->next_deadline) return NULL;
  gather_taken(q, now, &g);
  gather_waiting(q, now, &g);
  q->next_deadline = g.next_deadline;
  *g.last = NULL;
  return g.first;
}

uint32_t sp_queue_tell(sp_queue *q, sp_slot *first) {
  uint32_t n = 0;
  for (sp_slot *s = first, *next; s; s = next, n++) {
    next = s->next;
    bool taken = s->state == SP_SLOT_TAKEN;
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
  sp_slot *first = sp_queue_gather(q, sp_now());
  pthread_mutex_unlock(&q->lock);
  return sp_queue_tell(q, first);
}

/* A step is over with one that was late. */
static void drop(sp_queue *q, sp_slot *s) {
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
    sp_slot *s = &q->slots[ids[i] & ((UINT64_C(1) << SP_SLOT_BITS) - 1)];
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
    bool open = q->slots[i].state == SP_SLOT_WAITING || (q->slots[i].state == SP_SLOT_TAKEN && !q->slots[i].told);
    pthread_mutex_unlock(&q->lock);
    if (open) give(q, &q->slots[i], (sp_answer){.status = status, .error = why}, false);
  }
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
