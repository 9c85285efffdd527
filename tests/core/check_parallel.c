/* SPDX-License-Identifier: MIT
 * check_parallel.c - the worker team: every item once, worker indices, failures, calls at one time. */
#include <check.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "host/parallel.h"
#include "tests/kit/suite.h"

enum { N = 2000, MAX = 16 };

typedef struct work {
  int seen[N];
  atomic_int in_use[MAX];
  atomic_int clash;
  int threads;
  int64_t fail_from, fail_every;
  atomic_int ran;
} work;

static sp_err err;

static int item(void *arg, int64_t i, int worker) {
  work *w = arg;
  if (worker < 0 || worker >= w->threads || atomic_exchange(&w->in_use[worker], 1)) atomic_store(&w->clash, 1);
  w->seen[i]++; /* not atomic: an item run twice at once shows under TSan */
  volatile int busy = 0;
  for (int k = 0; k < 200; k++) busy += k;
  atomic_store(&w->in_use[worker], 0);
  atomic_fetch_add(&w->ran, 1);
  if (w->fail_every && i >= w->fail_from && i % w->fail_every == 0) return -(int)i - 1;
  return 0;
}

static sp_team *team_new(int helpers) {
  sp_team *team = NULL;
  ck_assert_int_eq(sp_team_new(&team, helpers, &err), SP_OK);
  return team;
}

START_TEST(every_item_once) {
  static const int helpers[] = {0, 1, 3, 7};
  sp_team *team = team_new(helpers[_i]);
  for (int threads = 1; threads <= 8; threads++) {
    for (int64_t n = 0; n <= N; n = n ? n * 7 + 1 : 1) {
      work w = {.threads = threads};
      ck_assert_int_eq(sp_team_run(team, threads, n, item, &w), 0);
      for (int64_t i = 0; i < N; i++) ck_assert_int_eq(w.seen[i], i < n);
      ck_assert_int_eq(atomic_load(&w.clash), 0);
    }
  }
  sp_team_free(team);
}
END_TEST

START_TEST(smallest_failure) {
  sp_team *team = team_new(4);
  for (int round = 0; round < 200; round++) {
    work w = {.threads = 5, .fail_from = 300, .fail_every = 7};
    ck_assert_int_eq(sp_team_run(team, 5, N, item, &w), -(301 + 1)); /* 301 is the first multiple of 7 */
    ck_assert_int_lt(atomic_load(&w.ran), N);                        /* handing out stopped */
  }
  sp_team_free(team);
}
END_TEST

typedef struct rounding {
  int mode[N];
} rounding;

static int round_item(void *arg, int64_t i, int worker) {
  (void)worker;
  ((rounding *)arg)->mode[i] = fegetround();
  fesetround(FE_DOWNWARD);
  return 0;
}

/* Which thread runs an item must not show: neither the mode of another item nor that of the caller alone. */
START_TEST(every_item_has_the_callers_floating_point_mode) {
  static const int modes[] = {FE_TONEAREST, FE_UPWARD};
  sp_team *team = team_new(3);
  for (int threads = 1; threads <= 4; threads++)
    for (int m = 0; m < 2; m++) {
      rounding r = {{0}};
      fesetround(modes[m]);
      ck_assert_int_eq(sp_team_run(team, threads, N, round_item, &r), 0);
      int now = fegetround(), same = 0;
      fesetround(FE_TONEAREST);
      ck_assert_int_eq(now, modes[m]);
      for (int i = 0; i < N; i++) same += r.mode[i] == modes[m];
      ck_assert_int_eq(same, N);
    }
  sp_team_free(team);
}
END_TEST

typedef struct meeting {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  int here;
} meeting;

/* Ends only when three threads are in it at once. */
static int meet(void *arg, int64_t i, int worker) {
  meeting *m = arg;
  (void)i;
  (void)worker;
  pthread_mutex_lock(&m->lock);
  m->here++;
  pthread_cond_broadcast(&m->cond);
  while (m->here < 3) pthread_cond_wait(&m->cond, &m->lock);
  pthread_mutex_unlock(&m->lock);
  return 0;
}

START_TEST(helpers_run_beside_the_caller) {
  sp_team *team = team_new(8);
  for (int round = 0; round < 20; round++) {
    meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    ck_assert_int_eq(sp_team_run(team, 3, 3, meet, &m), 0);
    ck_assert_int_eq(m.here, 3);
  }
  sp_team_free(team);
}
END_TEST

static sp_team *shared;

static void *caller(void *arg) {
  work *w = arg;
  for (int round = 0; round < 30; round++) {
    memset(w->seen, 0, sizeof w->seen);
    if (sp_team_run(shared, w->threads, N, item, w)) atomic_store(&w->clash, 1);
    for (int i = 0; i < N; i++)
      if (w->seen[i] != 1) atomic_store(&w->clash, 1);
  }
  return NULL;
}

START_TEST(calls_at_one_time) {
  enum { CALLERS = 4 };
  static work w[CALLERS];
  pthread_t thread[CALLERS];
  shared = team_new(3);
  for (int i = 0; i < CALLERS; i++) {
    w[i].threads = 2 + i;
    ck_assert_int_eq(pthread_create(&thread[i], NULL, caller, &w[i]), 0);
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(thread[i], NULL);
    ck_assert_int_eq(atomic_load(&w[i].clash), 0);
  }
  sp_team_free(shared);
}
END_TEST

static int nested(void *arg, int64_t i, int worker) {
  static work inner[8];
  (void)arg;
  (void)worker;
  inner[i].threads = 3;
  return sp_team_run(shared, 3, 50, item, &inner[i]);
}

/* The rules forbid it; it must not hang all the same. */
START_TEST(nested_calls_end) {
  shared = team_new(2);
  ck_assert_int_eq(sp_team_run(shared, 3, 8, nested, NULL), 0);
  sp_team_free(shared);
}
END_TEST

START_TEST(refuses_sizes) {
  sp_team *team = NULL;
  ck_assert_int_eq(sp_team_new(&team, -1, &err), SP_E_RANGE);
  ck_assert_int_eq(sp_team_new(&team, 100000, &err), SP_E_RANGE);
  ck_assert_ptr_nonnull(strstr(err.msg, "100000"));
  sp_team_free(NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("parallel");
  TCase *tc = tcase_create("team");
  tcase_set_timeout(tc, 30);
  tcase_add_loop_test(tc, every_item_once, 0, 4);
  tcase_add_test(tc, smallest_failure);
  tcase_add_test(tc, every_item_has_the_callers_floating_point_mode);
  tcase_add_test(tc, helpers_run_beside_the_caller);
  tcase_add_test(tc, calls_at_one_time);
  tcase_add_test(tc, nested_calls_end);
  tcase_add_test(tc, refuses_sizes);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
