/* SPDX-License-Identifier: MIT
 * ranks.c - the ranks of a job as one object: its beginning and end, and what this rank says that it is at. */
#include "ranks/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "ranks/impl.h"

#define HEARD 1.5 /* seconds: longer than the watcher takes to decide */

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static void free_ranks(sp_ranks *r) {
  for (int i = 0; r->peers && i < r->n_peers; i++)
    for (int k = 0; k < SP_LINKS; k++) sp_net_close(&r->peers[i].fd[k]);
  sp_net_close(&r->wake);
  pthread_cond_destroy(&r->changed);
  pthread_mutex_destroy(&r->lock);
  pthread_mutex_destroy(&r->aborting);
  pthread_mutex_destroy(&r->waiting);
  free(r->polled);
  free(r->peers);
  free(r);
}

static void make_lock(sp_ranks *r) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&r->lock, NULL);
  pthread_mutex_init(&r->aborting, NULL);
  pthread_mutex_init(&r->waiting, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&r->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static int make(sp_ranks **out, const sp_rank_opts *o, sp_err *err) {
  sp_ranks *r = sp_calloc(1, sizeof *r);
  if (!r) return sp_nomem(err, sizeof *r, "the ranks of a job");
  r->o = *o;
  r->guilty = -1;
  r->n_peers = o->rank == 0 ? o->ranks : 1;
  make_lock(r);
  r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  r->peers = sp_calloc((size_t)r->n_peers, sizeof *r->peers);
  r->polled = sp_calloc((size_t)r->n_peers + 1, sizeof *r->polled);
  for (int i = 0; r->peers && i < r->n_peers; i++)
    r->peers[i] =
        (sp_rank_peer){.fd = {-1, -1}, .place = {.step = SP_RANKS_NO_STEP}, .told = {.step = SP_RANKS_NO_STEP}};
  sp_ranks_at(r, SP_RANKS_NO_STEP, NULL, NULL);
  *out = r;
  if (!r->peers || !r->polled) return sp_nomem(err, (size_t)r->n_peers * sizeof *r->peers, "the ranks of a job");
  return r->wake < 0 ? sp_fail(err, SP_E_IO, "the ranks of a job: %s", strerror(errno)) : SP_OK;
}

int sp_ranks_open(sp_ranks **out, const sp_rank_opts *o, sp_err *err) {
  sp_ranks *r = NULL;
  *out = NULL;
  if (o->ranks < 1 || o->ranks > SP_RANKS_MAX || o->rank < 0 || o->rank >= o->ranks)
    return sp_fail(err, SP_E_RANGE, "rank %d of %d: ranks count from 0, at most %d", o->rank, o->ranks, SP_RANKS_MAX);
  if (o->ranks == 1) return SP_OK;
  int rc = make(&r, o, err);
  if (!rc) rc = sp_ranks_join(r, err);
  if (!rc) rc = sp_ranks_watch(r, err);
  if (rc && r) free_ranks(r);
  else *out = r;
  return rc;
}

int sp_ranks_close(sp_ranks *r, sp_err *err) {
  if (!r) return SP_OK;
  pthread_mutex_lock(&r->lock);
  r->closing = true;
  pthread_cond_broadcast(&r->changed);
  pthread_mutex_unlock(&r->lock);
  eventfd_write(r->wake, 1);
  pthread_join(r->watcher, NULL);
  int rc = sp_ranks_failed(r, err);
  free_ranks(r);
  return rc;
}

const sp_rank_opts *sp_ranks_opts(const sp_ranks *r) {
  static const sp_rank_opts alone = {.ranks = 1, .local_ranks = 1, .origin = "", .listener = -1};
  return r ? &r->o : &alone;
}

/* ---- what this rank is at ---------------------------------------------------------------------------------------- */

/* Each word after the odd number and before the even one: the watcher, which reads the number before and after, either
 * has the words of one call or knows that it has not. */
void sp_ranks_at(sp_ranks *r, uint64_t step, const char *stage, const char *waiting_for) {
  union {
    sp_rank_place place;
    uint64_t words[SP_PLACE_WORDS];
  } now = {.place = {.step = step}};
  if (!r) return;
  if (stage) strncpy(now.place.stage, stage, sizeof now.place.stage - 1);
  if (waiting_for) strncpy(now.place.waiting, waiting_for, sizeof now.place.waiting - 1);
  unsigned seq = atomic_load_explicit(&r->place_seq, memory_order_relaxed);
  if (seq % 2 || !atomic_compare_exchange_strong(&r->place_seq, &seq, seq + 1)) return;
  for (size_t i = 0; i < SP_PLACE_WORDS; i++) atomic_store_explicit(&r->place[i], now.words[i], memory_order_release);
  atomic_store_explicit(&r->place_seq, seq + 2, memory_order_release);
}

void sp_ranks_busy(sp_ranks *r, const char *with) {
  if (r) sp_ranks_at(r, sp_ranks_place(r).step, with, NULL);
}

/* ---- how long it waits ------------------------------------------------------------------------------------------- */

static double count(sp_ranks *r, int waits, int works) {
  double now = sp_now();
  pthread_mutex_lock(&r->waiting);
  if (r->waits && !r->works) r->waited += now - r->since;
  r->since = now;
  r->waits += waits;
  r->works += works;
  double waited = r->waited;
  pthread_mutex_unlock(&r->waiting);
  return waited;
}

void sp_ranks_wait(sp_ranks *r, bool begins) {
  if (r) count(r, begins ? 1 : -1, 0);
}

void sp_ranks_work(sp_ranks *r, bool begins) {
  if (r) count(r, 0, begins ? 1 : -1);
}

void sp_ranks_block(sp_ranks *r, bool begins) {
  if (!r) return;
  unsigned n = atomic_load_explicit(&r->blocks, memory_order_relaxed) | 1; /* another number each time */
  atomic_store_explicit(&r->blocks, n + (begins ? 2 : 1), memory_order_relaxed);
}

double sp_ranks_waited(sp_ranks *r) { return r ? count(r, 0, 0) : 0; }

/* ---- failure ----------------------------------------------------------------------------------------------------- */

int sp_ranks_failed(sp_ranks *r, sp_err *err) { return sp_ranks_await_failure(r, 0, err); }

int sp_ranks_guilty(sp_ranks *r) {
  pthread_mutex_lock(&r->lock);
  int guilty = r->guilty;
  pthread_mutex_unlock(&r->lock);
  return guilty;
}

struct timespec sp_ranks_time(double seconds) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  at.tv_sec += (time_t)seconds + at.tv_nsec / 1000000000;
  at.tv_nsec %= 1000000000;
  return at;
}

int sp_ranks_await_failure(sp_ranks *r, double seconds, sp_err *err) {
  if (!r) return SP_OK;
  struct timespec at = sp_ranks_time(seconds);
  pthread_mutex_lock(&r->lock);
  for (int rc = 0; !r->failure.status && seconds > 0 && !rc;) rc = pthread_cond_timedwait(&r->changed, &r->lock, &at);
  if (r->failure.status) *err = r->failure;
  int status = r->failure.status;
  pthread_mutex_unlock(&r->lock);
  return status;
}

static void ask_watcher(sp_ranks *r, int rank, bool own, const sp_err *why) {
  sp_err err;
  pthread_mutex_lock(&r->lock);
  if (!r->asked.status) {
    r->asked = *why;
    r->asked_rank = rank;
    r->asked_own = own;
  }
  pthread_mutex_unlock(&r->lock);
  eventfd_write(r->wake, 1);
  sp_ranks_await_failure(r, HEARD, &err);
}

void sp_ranks_fail(sp_ranks *r, const sp_err *why) {
  if (!r) return;
  pthread_mutex_lock(&r->lock);
  r->own = true;
  pthread_mutex_unlock(&r->lock);
  ask_watcher(r, r->o.rank, true, why);
}

int sp_ranks_blame(sp_ranks *r, int rank, const sp_err *why, sp_err *err) {
  sp_err mine = *why; /* which may be err */
  ask_watcher(r, rank, false, &mine);
  return sp_ranks_failed(r, err) ? err->status : sp_fail(err, mine.status, "%s", mine.msg);
}

/* ---- what must be aborted ---------------------------------------------------------------------------------------- */

void sp_ranks_add_abort(sp_ranks *r, sp_rank_abort *a) {
  if (!r) return;
  pthread_mutex_lock(&r->aborting);
  a->next = r->aborts;
  r->aborts = a;
  if (r->aborted) a->abort(a->arg);
  pthread_mutex_unlock(&r->aborting);
}

void sp_ranks_remove_abort(sp_ranks *r, sp_rank_abort *a) {
  if (!r) return;
  pthread_mutex_lock(&r->aborting);
  for (sp_rank_abort **at = &r->aborts; *at; at = &(*at)->next)
    if (*at == a) {
      *at = a->next;
      break;
    }
  pthread_mutex_unlock(&r->aborting);
}

void sp_ranks_set_failure(sp_ranks *r, int guilty, const sp_err *why) {
  pthread_mutex_lock(&r->aborting);
  pthread_mutex_lock(&r->lock);
  r->failure = *why;
  r->guilty = guilty;
  pthread_cond_broadcast(&r->changed);
  pthread_mutex_unlock(&r->lock);
  for (sp_rank_abort *a = r->aborts; a; a = a->next) a->abort(a->arg);
  r->aborted = true;
  for (int i = 0; i < r->n_peers; i++) {
    const sp_rank_peer *p = &r->peers[i];
    bool stands = r->o.rank == 0 && p->cut; /* who reads here ends, and the other rank does not see it */
    if (p->fd[SP_LINK_DATA] >= 0) shutdown(p->fd[SP_LINK_DATA], stands ? SHUT_RD : SHUT_RDWR);
  }
  pthread_mutex_unlock(&r->aborting);
}
