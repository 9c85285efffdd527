/* SPDX-License-Identifier: MIT
 * check_ranks_guilty.c - who is named, on each of the others, when a rank dies, stops, stalls, fails or leaves. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/kit/ranks_kit.h"
#include "tests/kit/suite.h"

static int guilty;

static void arrive(sp_ranks *r) {
  int rank = sp_ranks_opts(r)->rank;
  sp_err err;
  sp_ranks_at(r, 41, "decoder.backward", rank == guilty ? NULL : "gather");
  sp_ranks_exchange(r, NULL, 0, NULL, &err); /* so that it is known: each says it with the call */
  atomic_fetch_add(&s->ready, 1);
}

/* Where a step would be: it waits for the others. */
static int wait_in_step(sp_ranks *r, sp_err *err) {
  char mine = 0, all[MOST];
  arrive(r);
  if (sp_ranks_opts(r)->rank == guilty) usleep(60000000);
  return sp_ranks_exchange(r, &mine, 1, all, err);
}

static void count(void *arg) {
  (void)arg;
  atomic_fetch_add(&s->aborted, 1);
}

/* Of three things to abort one is gone by then, and one comes too late. */
static int fail_in_step(sp_ranks *r, sp_err *err) {
  char mine = 0, all[MOST];
  sp_rank_abort a = {.abort = count}, gone = {.abort = count}, late = {.abort = count};
  sp_ranks_add_abort(r, &gone);
  sp_ranks_add_abort(r, &a);
  sp_ranks_remove_abort(r, &gone);
  arrive(r);
  if (sp_ranks_opts(r)->rank == guilty) {
    sp_fail(err, SP_E_DATA, "stage 'decoder': no such file\ntraceback of it");
    sp_ranks_fail(r, err);
    sp_ranks_failed(r, err);
  } else sp_ranks_exchange(r, &mine, 1, all, err);
  sp_ranks_add_abort(r, &late);
  sp_ranks_remove_abort(r, &a);
  sp_ranks_remove_abort(r, &late);
  return err->status;
}

static int leave_in_step(sp_ranks *r, sp_err *err) {
  char mine = 0, all[MOST];
  arrive(r);
  return sp_ranks_opts(r)->rank == guilty ? SP_OK : sp_ranks_exchange(r, &mine, 1, all, err);
}

/* Starts them and waits until all are at their place. */
static void start_step(int ranks, int who, work what) {
  set_up(ranks);
  guilty = who;
  for (int i = 0; i < ranks; i++) start(i, what);
  while (s->ready < ranks) usleep(1000);
}

static const int places[] = {3, 0};

START_TEST(a_rank_dies) {
  char words[256];
  start_step(4, places[_i], wait_in_step);
  double t = sp_now();
  kill(pids[guilty], SIGKILL);
  ck_assert_int_eq(end_all(), 0);
  snprintf(words, sizeof words, "rank %d died at step 42 in stage 'decoder.backward'", guilty);
  all_say(words, guilty);
  ck_assert(sp_now() - t < 15); /* and not a timeout, which is 20 */
  ck_assert_int_eq(s->called, 3);
}
END_TEST

/* Rank 1 waits for a device that does not come back, rank 2 for one that does, again and again;
 * neither ends its script. */
static int wait_for_device(sp_ranks *r, sp_err *err) {
  arrive(r);
  sp_ranks_block(r, true);
  for (;; usleep(1000)) {
    if (sp_ranks_opts(r)->rank != 2) continue;
    sp_ranks_block(r, false);
    sp_ranks_block(r, true);
  }
  return err->status;
}

static void end_late(void *arg, const sp_err *why, bool late) {
  (void)arg, (void)why;
  if (late) _exit(9);
}

START_TEST(a_device_is_stuck) {
  int status;
  set_up(3);
  opts.failed = end_late;
  opts.grace = 2;
  opts.stuck = 0.3;
  guilty = 0;
  for (int i = 0; i < 3; i++) start(i, wait_for_device);
  while (s->ready < 3) usleep(1000);
  kill(pids[0], SIGKILL);
  ck_assert_int_eq(waitpid(pids[1], &status, 0), pids[1]);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 9);
  ck_assert_int_eq(waitpid(pids[2], &status, WNOHANG), 0);
  pids[1] = 0;
  double t = sp_now();
  ck_assert_int_eq(waitpid(pids[2], &status, 0), pids[2]);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 9);
  ck_assert(sp_now() - t > 0.7); /* it has its 2 s */
  pids[2] = 0;
  ck_assert_int_eq(end_all(), 0);
}
END_TEST

START_TEST(a_rank_is_stopped) {
  char words[256];
  set_up(4);
  opts.silence = 4;
  guilty = 0; /* tests/cli/ranks.sh stops another one */
  for (int i = 0; i < 4; i++) start(i, wait_in_step);
  while (s->ready < 4) usleep(1000);
  pid_t stopped = pids[guilty];
  kill(stopped, SIGSTOP);
  pids[guilty] = 0;
  ck_assert_int_eq(end_all(), 0);
  snprintf(words, sizeof words,
           "rank %d was silent for 4 s (stopped, or its host is gone) at step 42 in stage 'decoder.backward'", guilty);
  all_say(words, guilty);
  kill(stopped, SIGKILL);
  waitpid(stopped, NULL, 0);
}
END_TEST

/* It is awake, but gets nowhere, and the others wait for it. */
START_TEST(a_rank_is_stalled) {
  char words[256];
  set_up(4);
  opts.timeout = 5;
  guilty = 3;
  for (int i = 0; i < 4; i++) start(i, wait_in_step);
  pid_t stalled = pids[guilty];
  pids[guilty] = 0;
  ck_assert_int_eq(end_all(), 0);
  snprintf(words, sizeof words,
           "rank %d is stalled (no rank got on for 5 s) at step 42 in stage 'decoder.backward': rank %d waits for "
           "'exchange'",
           guilty, guilty ? 0 : 1);
  all_say(words, guilty);
  kill(stalled, SIGKILL);
  waitpid(stalled, NULL, 0);
}
END_TEST

/* Nobody waits for anybody: however long it takes, nobody is stalled. */
static int slow(sp_ranks *r, sp_err *err) {
  sp_ranks_at(r, 1, "evaluate", NULL);
  usleep(1200000);
  atomic_fetch_add(&s->ready, 1);
  while (s->ready < 2) usleep(1000); /* they come to the call together */
  return sp_ranks_exchange(r, NULL, 0, NULL, err);
}

START_TEST(slow_ranks_are_not_stalled) {
  set_up(2);
  opts.timeout = 1;
  for (int i = 0; i < 2; i++) start(i, slow);
  ck_assert_int_eq(end_all(), 2);
}
END_TEST

START_TEST(a_rank_fails) {
  char words[256];
  start_step(4, places[_i], fail_in_step);
  ck_assert_int_eq(end_all(), 0);
  snprintf(words, sizeof words, "rank %d failed at step 42 in stage 'decoder.backward': stage 'decoder': no such file",
           guilty);
  all_say(words, -1);
  ck_assert_int_eq(s->aborted, 8);
  ck_assert_int_eq(s->called, 3); /* not where it was said */
}
END_TEST

START_TEST(a_rank_leaves) {
  char words[256];
  start_step(4, places[_i], leave_in_step);
  ck_assert_int_eq(end_all(), 0);
  int n =
      snprintf(words, sizeof words, "rank %d ended its script at step 42 in stage 'decoder.backward': rank ", guilty);
  ck_assert_msg(strncmp(s->words[0], words, (size_t)n) == 0, "%s", s->words[0]);
  ck_assert_str_eq(s->words[0] + n + 1,
                   " waits for it in call 2 between ranks"); /* whichever of them was heard first */
  all_say(s->words[0], 0);
}
END_TEST

/* Who has done all that the others do may leave before them. */
static int leave_early(sp_ranks *r, sp_err *err) {
  char mine = 0, all[MOST];
  int rc = sp_ranks_exchange(r, &mine, 1, all, err);
  usleep(sp_ranks_opts(r)->rank == 1 ? 600000 : 0);
  return rc;
}

START_TEST(ends_at_different_times) {
  start_all(3, leave_early);
  ck_assert_int_eq(end_all(), 3);
}
END_TEST

/* Somebody else ends the control connection of a rank, at its end or at that of rank 0; how it is at the other end. */
static bool cut_at_first;

static int be_cut(sp_ranks *r, sp_err *err) {
  char mine = 0, all[MOST];
  int rank = sp_ranks_opts(r)->rank, end = cut_at_first ? 0 : guilty;
  arrive(r);
  if (rank == guilty) usleep(100000); /* nobody is in a call to this one, others wait for it */
  if (rank == end) shutdown(r->peers[cut_at_first ? guilty : 0].fd[SP_LINK_CONTROL], SHUT_RDWR);
  return sp_ranks_exchange(r, &mine, 1, all, err);
}

START_TEST(a_connection_is_cut) {
  cut_at_first = _i;
  start_step(4, 2, be_cut);
  double t = sp_now();
  ck_assert_int_eq(end_all(), 0);
  all_say("rank 2 lost its control connection to rank 0 at step 42 in stage 'decoder.backward': both processes live, "
          "something else has ended it",
          -1);
  ck_assert(sp_now() - t < 15);
}
END_TEST

/* Garbage on a connection of the job. */
static int babble(sp_ranks *r, sp_err *err) {
  char mine = 0, all[MOST], noise[64];
  memset(noise, 0xee, sizeof noise);
  if (sp_ranks_opts(r)->rank == 1) send(r->peers[0].fd[SP_LINK_CONTROL], noise, sizeof noise, MSG_NOSIGNAL);
  return sp_ranks_exchange(r, &mine, 1, all, err);
}

START_TEST(garbage_from_a_rank) {
  start_all(3, babble);
  ck_assert_int_eq(end_all(), 0);
  all_say("rank 1 sent what is no note before its first step", -1);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("ranks_guilty");
  TCase *c = tcase_create("guilty");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, a_rank_dies, 0, 2);
  tcase_add_test(c, a_device_is_stuck);
  tcase_add_test(c, a_rank_is_stopped);
  tcase_add_test(c, a_rank_is_stalled);
  tcase_add_loop_test(c, a_rank_fails, 0, 2);
  tcase_add_loop_test(c, a_rank_leaves, 0, 2);
  tcase_add_test(c, slow_ranks_are_not_stalled);
  tcase_add_test(c, ends_at_different_times);
  tcase_add_loop_test(c, a_connection_is_cut, 0, 2);
  tcase_add_test(c, garbage_from_a_rank);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
