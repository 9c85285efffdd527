/* SPDX-License-Identifier: MIT
 * parallel.c - worker threads that several callers share: items handed out by an atomic counter. */
#include "host/parallel.h"

#include "base/crash.h"
#include "base/fpmode.h"
#include "base/spin.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define SPIN_IDLE 5e-6  /* a helper that has just finished: the next call often follows at once */
#define SPIN_DONE 10e-6 /* a caller whose helpers are at their last items */

/* One call of sp_team_run; lies on the caller's stack, so nobody may touch it once `active` is 0 and it is unlinked. */
typedef struct job {
  struct job *next;
  int (*fn)(void *arg, int64_t i, int worker);
  void *arg;
  const sp_crash_call *call; /* the caller's, for a helper that crashes */
  sp_fpmode mode;            /* the caller's, for every item: which thread runs it must not matter */
  int64_t n;
  _Atomic int64_t item;
  atomic_bool stop;
  int want, workers; /* helpers still wanted; indices handed out */
  atomic_int active; /* helpers at work; changed under the team's lock */
  bool waiting;
  int64_t failed_item;
  int failed;
  pthread_cond_t done;
} job;

struct sp_team {
  pthread_mutex_t lock;
  pthread_cond_t work;
  job *jobs;         /* calls that still want helpers or have some */
  atomic_int wanted; /* sum of want, so that an idle helper can look without the lock */
  int max_helpers, n_helpers, n_asleep;
  bool quit, warned;
  pthread_t *helper;
};

static void work_on(sp_team *team, job *j, int worker) {
  /* An item that was taken is always run, also after a failure: all items before a failed one are then run, so that the
   * smallest failing one is found whatever the timing. */
  while (!atomic_load_explicit(&j->stop, memory_order_relaxed)) {
    int64_t i = atomic_fetch_add_explicit(&j->item, 1, memory_order_relaxed);
    if (i >= j->n) break;
    int status = j->fn(j->arg, i, worker);
    sp_fpmode_set(j->mode);
    if (status) {
      pthread_mutex_lock(&team->lock);
      if (!j->failed || i < j->failed_item) {
        j->failed = status;
        j->failed_item = i;
      }
      pthread_mutex_unlock(&team->lock);
      atomic_store_explicit(&j->stop, true, memory_order_relaxed);
    }
  }
}

static job *job_wanting(sp_team *team) {
  for (job *j = team->jobs; j; j = j->next)
    if (j->want > 0) return j;
  return NULL;
}

static void *helper_main(void *arg) {
  sp_team *team = arg;
  pthread_mutex_lock(&team->lock);
  while (!team->quit) {
    job *j = job_wanting(team);
    if (!j) {
      pthread_mutex_unlock(&team->lock);
      sp_spin_state spin = {0};
      while (!atomic_load_explicit(&team->wanted, memory_order_relaxed) && sp_spin(&spin, SPIN_IDLE)) continue;
      pthread_mutex_lock(&team->lock);
      while (!team->quit && !job_wanting(team)) {
        team->n_asleep++;
        pthread_cond_wait(&team->work, &team->lock);
        team->n_asleep--;
      }
      continue;
    }
    j->want--;
    atomic_fetch_sub_explicit(&team->wanted, 1, memory_order_relaxed);
    int worker = ++j->workers;
    atomic_fetch_add_explicit(&j->active, 1, memory_order_relaxed);
    pthread_mutex_unlock(&team->lock);
    sp_crash_adopt(j->call);
    sp_fpmode_set(j->mode);
    work_on(team, j, worker);
    sp_crash_adopt(NULL);
    pthread_mutex_lock(&team->lock);
    bool wake = j->waiting; /* read first: without a waiter the caller may leave as soon as `active` falls */
    if (atomic_fetch_sub_explicit(&j->active, 1, memory_order_release) == 1 && wake) pthread_cond_signal(&j->done);
  }
  pthread_mutex_unlock(&team->lock);
  return NULL;
}

/* Under the lock. Fewer threads than wanted only make a call slower, so that is a warning. */
static void start_helpers(sp_team *team, int n) {
  if (n > team->max_helpers) n = team->max_helpers;
  for (; team->n_helpers < n; team->n_helpers++) {
    char name[32];
    snprintf(name, sizeof name, "sp-worker-%d", team->n_helpers);
    if (!sp_thread_start(&team->helper[team->n_helpers], name, helper_main, team)) continue;
    if (!team->warned) sp_log(SP_LOG_WARN, "only %d of %d worker threads could be started", team->n_helpers, n);
    team->warned = true;
    return;
  }
}

int sp_team_new(sp_team **out, int max_helpers, sp_err *err) {
  if (max_helpers < 0 || max_helpers > 4096)
    return sp_fail(err, SP_E_RANGE, "%d worker threads asked for, 0 to 4096 are possible", max_helpers);
  sp_team *team = sp_calloc(1, sizeof *team);
  if (!team) return sp_nomem(err, sizeof *team, "the worker threads");
  team->helper = sp_calloc((size_t)max_helpers, sizeof *team->helper);
  if (!team->helper) {
    free(team);
    return sp_nomem(err, (size_t)max_helpers * sizeof *team->helper, "the worker threads");
  }
  team->max_helpers = max_helpers;
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->work, NULL);
  *out = team;
  return SP_OK;
}

void sp_team_free(sp_team *team) {
  if (!team) return;
  pthread_mutex_lock(&team->lock);
  team->quit = true;
  pthread_cond_broadcast(&team->work);
  pthread_mutex_unlock(&team->lock);
  for (int i = 0; i < team->n_helpers; i++) pthread_join(team->helper[i], NULL);
  pthread_cond_destroy(&team->work);
  pthread_mutex_destroy(&team->lock);
  free(team->helper);
  free(team);
}

static int run_alone(int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg) {
  sp_fpmode mode = sp_fpmode_get();
  for (int64_t i = 0; i < n; i++) {
    int status = fn(arg, i, 0);
    sp_fpmode_set(mode);
    if (status) return status;
  }
  return SP_OK;
}

int sp_team_run(sp_team *team, int threads, int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg) {
  if (threads > n) threads = (int)n;
  if (threads <= 1 || !team->max_helpers) return run_alone(n, fn, arg);
  job j = {.fn = fn, .arg = arg, .call = sp_crash_current(), .mode = sp_fpmode_get(), .n = n, .want = threads - 1};
  pthread_cond_init(&j.done, NULL);

  pthread_mutex_lock(&team->lock);
  start_helpers(team, j.want);
  job **end = &team->jobs; /* at the end: earlier calls are helped first */
  while (*end) end = &(*end)->next;
  *end = &j;
  atomic_fetch_add_explicit(&team->wanted, j.want, memory_order_relaxed);
  int wake = j.want < team->n_asleep ? j.want : team->n_asleep;
  for (int i = 0; i < wake; i++) pthread_cond_signal(&team->work);
  pthread_mutex_unlock(&team->lock);

  work_on(team, &j, 0);

  pthread_mutex_lock(&team->lock);
  for (job **at = &team->jobs; *at; at = &(*at)->next) {
    if (*at != &j) continue;
    *at = j.next;
    break;
  }
  atomic_fetch_sub_explicit(&team->wanted, j.want, memory_order_relaxed);
  j.want = 0;
  pthread_mutex_unlock(&team->lock);

  sp_spin_state spin = {0};
  while (atomic_load_explicit(&j.active, memory_order_acquire) && sp_spin(&spin, SPIN_DONE)) continue;
  pthread_mutex_lock(&team->lock); /* also where none is active: the last helper may still hold the lock */
  j.waiting = true;
  while (atomic_load_explicit(&j.active, memory_order_acquire)) pthread_cond_wait(&j.done, &team->lock);
  pthread_mutex_unlock(&team->lock);
  pthread_cond_destroy(&j.done);
  return j.failed;
}
