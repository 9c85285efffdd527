/* SPDX-License-Identifier: MIT
 * trace_sample.c - counters of a trace: a thread that reads them ten times a second, the first time at once. */
#include "host/trace_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

#define PERIOD 100000000 /* ns */
#define MOST 18000       /* half an hour */

struct sp_trace_sampler {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool stop;
  void (*read)(void *arg, double *values);
  void *arg;
  sp_trace_sample *samples; /* the trace's */
  size_t n;
};

static void take(struct sp_trace_sampler *s) {
  if (s->n >= MOST) return;
  s->samples[s->n].time = sp_now();
  s->read(s->arg, s->samples[s->n++].values);
}

static void *sample(void *arg) {
  struct sp_trace_sampler *s = arg;
  struct timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  pthread_mutex_lock(&s->lock);
  for (bool last = false; !last; take(s)) {
    next.tv_nsec += PERIOD;
    next.tv_sec += next.tv_nsec / 1000000000;
    next.tv_nsec %= 1000000000;
    while (!s->stop && pthread_cond_timedwait(&s->wake, &s->lock, &next) == 0) continue;
    last = s->stop;
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

static void drop(struct sp_trace_sampler *s) {
  pthread_cond_destroy(&s->wake);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static int start(struct sp_trace_sampler *s, sp_err *err) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&s->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&s->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  take(s);
  int rc = sp_thread_start(&s->thread, "sp-trace", sample, s);
  return rc ? sp_fail(err, SP_E_NOMEM, "no thread for the counters of a trace: %s", strerror(rc)) : SP_OK;
}

int sp_trace_count(sp_trace *t, const char *const *names, size_t n, void (*read)(void *arg, double *values), void *arg,
                   sp_err *err) {
  if (t->samples || t->written) return SP_OK;
  if (n > SP_COUNTERS_MAX)
    return sp_fail(err, SP_E_RANGE, "%zu counters of a device, at most %d are possible", n, SP_COUNTERS_MAX);
  t->samples = sp_calloc(MOST, sizeof *t->samples);
  t->sampler = t->samples ? sp_calloc(1, sizeof *t->sampler) : NULL;
  if (!t->sampler) return sp_nomem(err, MOST * sizeof *t->samples, "counters of a trace");
  *t->sampler = (struct sp_trace_sampler){.read = read, .arg = arg, .samples = t->samples};
  t->counters = names;
  t->n_counters = n;
  int st = start(t->sampler, err);
  if (!st) return SP_OK;
  t->n_samples = t->sampler->n;
  drop(t->sampler);
  t->sampler = NULL;
  return st;
}

void sp_trace_counted(sp_trace *t) {
  struct sp_trace_sampler *s = t->sampler;
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  s->stop = true;
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  t->n_samples = s->n;
  drop(s);
  t->sampler = NULL;
}

int sp_trace_uncounted(sp_trace *t, const char *why, sp_err *err) {
  if (!t->no_counters) t->no_counters = sp_strdup(why);
  return t->no_counters ? SP_OK : sp_nomem(err, strlen(why), "the trace");
}
