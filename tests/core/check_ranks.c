/* SPDX-License-Identifier: MIT
 * check_ranks.c - several processes as the ranks of a job: what they exchange, and who may come. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/kit/ranks_kit.h"
#include "tests/kit/suite.h"

/* ---- exchange ---------------------------------------------------------------------------------------------------- */

static int gather(sp_ranks *r, sp_err *err) {
  static const size_t sizes[] = {0, 1, 255, 4096, 1 << 20};
  const sp_rank_opts *o = sp_ranks_opts(r);
  unsigned char *all = malloc(sizes[4] * MOST), *mine = malloc(sizes[4]);
  int rc = 0;
  for (int turn = 0; turn < 50 && !rc; turn++) {
    size_t n = sizes[turn < 48 ? turn % 4 : 4];
    unsigned char *from = turn % 2 ? all + (size_t)o->rank * n : mine;
    memset(from, o->rank * 50 + turn, n);
    rc = sp_ranks_exchange(r, n ? from : NULL, n, n ? all : NULL, err);
    for (size_t i = 0; i < n * (size_t)o->ranks && !rc; i++)
      if (all[i] != (unsigned char)((int)(i / n) * 50 + turn))
        rc = sp_fail(err, SP_E_DATA, "turn %d: byte %zu", turn, i);
  }
  free(mine);
  free(all);
  return rc;
}

static int spread(sp_ranks *r, sp_err *err) {
  size_t n = 5000003;
  unsigned char *buf = malloc(n);
  for (size_t i = 0; i < n; i++) buf[i] = sp_ranks_opts(r)->rank ? 0 : (unsigned char)(i * 7);
  int rc = sp_ranks_broadcast(r, buf, n, err);
  for (size_t i = 0; i < n && !rc; i++)
    if (buf[i] != (unsigned char)(i * 7)) rc = sp_fail(err, SP_E_DATA, "byte %zu", i);
  free(buf);
  return rc ? rc : sp_ranks_broadcast(r, NULL, 0, err);
}

static int gather_and_spread(sp_ranks *r, sp_err *err) {
  int rc = gather(r, err);
  return rc ? rc : spread(r, err);
}

static const int crews[] = {2, 3, 8};

START_TEST(data_between_ranks) {
  start_all(crews[_i], gather_and_spread);
  int good = end_all();
  for (int i = 0; i < s->ranks; i++) ck_assert_str_eq(s->words[i], "");
  ck_assert_int_eq(good, crews[_i]);
  ck_assert_int_eq(s->called, 0);
}
END_TEST

START_TEST(one_rank_is_no_job) {
  sp_ranks *r;
  sp_err err;
  int a = 7, b = 0;
  ck_assert(!sp_ranks_open(&r, &(sp_rank_opts){.ranks = 1}, &err));
  ck_assert_ptr_null(r);
  ck_assert(!sp_ranks_exchange(r, &a, sizeof a, &b, &err) && b == 7);
  ck_assert(!sp_ranks_broadcast(r, &a, sizeof a, &err) && !sp_ranks_same(r, NULL, 0, &err));
  sp_ranks_at(r, 1, "stage", NULL);
  sp_ranks_fail(r, &err);
  ck_assert(!sp_ranks_failed(r, &err) && !sp_ranks_close(r, &err));
  ck_assert_int_eq(sp_ranks_opts(r)->ranks, 1);
}
END_TEST

static int differ_in_size(sp_ranks *r, sp_err *err) {
  char mine[16] = {0}, all[16 * MOST];
  return sp_ranks_exchange(r, mine, sp_ranks_opts(r)->rank == 2 ? 16 : 8, all, err);
}

static int differ_in_call(sp_ranks *r, sp_err *err) {
  char mine[8] = {0}, all[8 * MOST];
  return sp_ranks_opts(r)->rank == 1 ? sp_ranks_broadcast(r, mine, 8, err) : sp_ranks_exchange(r, mine, 8, all, err);
}

START_TEST(calls_that_differ) {
  start_all(4, differ_in_size);
  ck_assert_int_eq(end_all(), 0);
  all_say("call 1 between ranks: rank 0 is at exchange of 8 bytes, rank 2 at exchange of 16 bytes (call 1)", -1);
  start_all(2, differ_in_call);
  ck_assert_int_eq(end_all(), 0);
  all_say("call 1 between ranks: rank 0 is at exchange of 8 bytes, rank 1 at broadcast of 8 bytes (call 1)", -1);
}
END_TEST

static int same_text(sp_ranks *r, sp_err *err) {
  char x[600];
  memset(x, 'x', sizeof x);
  x[599] = 0;
  sp_rank_text t[] = {{"script", "a.lua"}, {"--lr", "0.1"}, {"long", x}};
  return sp_ranks_same(r, t, 3, err);
}

static int other_value(sp_ranks *r, sp_err *err) {
  int rank = sp_ranks_opts(r)->rank;
  sp_rank_text t[] = {
      {"script", "a.lua"}, {"--lr", rank == 1 || rank == 3 ? "0.2" : "0.1"}, {"last", rank ? "b" : "c"}};
  return sp_ranks_same(r, t, 3, err);
}

static int other_end(sp_ranks *r, sp_err *err) {
  char x[600];
  memset(x, 'x', sizeof x);
  x[599] = 0;
  x[500] = sp_ranks_opts(r)->rank == 1 ? 'y' : 'x';
  return sp_ranks_same(r, &(sp_rank_text){"long", x}, 1, err);
}

static int other_names(sp_ranks *r, sp_err *err) {
  sp_rank_text t[] = {{"script", "a.lua"}, {"--batch", "8"}};
  return sp_ranks_same(r, t, sp_ranks_opts(r)->rank == 2 ? 1 : 2, err);
}

START_TEST(what_must_be_the_same) {
  char x[253];
  memset(x, 'x', 252);
  x[252] = 0;
  start_all(4, same_text);
  ck_assert_int_eq(end_all(), 4);
  start_all(4, other_value);
  ck_assert_int_eq(end_all(), 0);
  all_say("the ranks differ in --lr: '0.1' on ranks 0, 2, '0.2' on ranks 1, 3", -1);
  start_all(3, other_names);
  ck_assert_int_eq(end_all(), 0);
  all_say("the ranks differ: '--batch' = '8' on ranks 0, 1, '' = '' on rank 2", -1);
  start_all(2, other_end);
  ck_assert_int_eq(end_all(), 0);
  char words[1536];
  snprintf(words, sizeof words, "the ranks differ in long: '%s...' on rank 0, '%s...' on rank 1 (behind what is shown)",
           x, x);
  all_say(words, -1);
}
END_TEST

/* ---- who comes --------------------------------------------------------------------------------------------------- */

static int call(void) {
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
  return fd;
}

/* Until so many connections to rank 0 stand, taken or not. */
static void await_calls(int n) {
  for (int found = 0; found < n; usleep(1000)) {
    char line[256];
    unsigned port, state;
    FILE *f = fopen("/proc/net/tcp", "r");
    ck_assert_ptr_nonnull(f);
    for (found = 0; fgets(line, sizeof line, f);)
      found += sscanf(line, " %*d: %*x:%x %*x:%*x %x", &port, &state) == 2 && port == (unsigned)s->port && state == 1;
    fclose(f);
  }
}

static sp_hello good_hello(int rank) {
  sp_hello h = {.order = SP_RANKS_ORDER, .protocol = SP_RANKS_PROTOCOL, .rank = rank, .ranks = s->ranks, .pid = 4711};
  memcpy(h.magic, SP_RANKS_MAGIC, 8);
  strcpy(h.version, PACKAGE_VERSION);
  strcpy(h.job, "test");
  strcpy(h.host, "elsewhere");
  return h;
}

/* Says that and gives the words of the answer. */
static const char *say(const void *data, size_t n) {
  static sp_welcome w;
  int fd = call();
  memset(&w, 0, sizeof w);
  ck_assert_int_eq(send(fd, data, n, MSG_NOSIGNAL), (ssize_t)n);
  ck_assert_int_eq(recv(fd, &w, sizeof w, MSG_WAITALL), (ssize_t)sizeof w);
  ck_assert_mem_eq(w.magic, SP_RANKS_ANSWER, 8);
  ck_assert_int_ne(w.status, 0);
  close(fd);
  return w.words;
}

/* Strangers are told so, and the job begins as if they had not been there. */
START_TEST(strangers) {
  set_up(2);
  char why[256];
  sp_hello h = good_hello(1);
  start(0, gather);
  snprintf(why, sizeof why, "port %d of this host is a job's of spcore, and you are none of its ranks: ", s->port);
  size_t n = strlen(why);
  int silent = call(), brief = call();
  close(brief);
  ck_assert_str_eq(say("GET / HTTP/1.1\r\n\r\n", 18) + n, "it does not speak as spcore does");
  ck_assert_str_eq(say("\377\377\377\377\377\377\377\377\377\377", 10) + n, "it does not speak as spcore does");
  strcpy(h.job, "other");
  ck_assert_str_eq(say(&h, sizeof h) + n, "it is of another job (SPCORE_JOB)");
  memset(h.job, 'x', sizeof h.job);
  ck_assert_str_eq(say(&h, sizeof h) + n, "it is of another kind of machine");
  h.order = 0x04030201;
  ck_assert_str_eq(say(&h, sizeof h) + n, "it is of another kind of machine");
  start(1, gather);
  ck_assert_int_eq(end_all(), 2);
  close(silent);
}
END_TEST

/* More of them than there are places: a rank does not have to wait until each has had its time. */
START_TEST(strangers_in_a_crowd) {
  int silent[300];
  set_up(2);
  opts.start = 8;
  start(0, gather);
  for (size_t i = 0; i < SP_ARRAY(silent); i++) {
    silent[i] = call();
    if (i % 2) ck_assert_int_eq(send(silent[i], SP_RANKS_MAGIC, 8, MSG_NOSIGNAL), 8);
  }
  start(1, gather);
  ck_assert_int_eq(end_all(), 2);
  for (size_t i = 0; i < SP_ARRAY(silent); i++) close(silent[i]);
}
END_TEST

/* Bytes at random, of any length, some behind the right beginning, some all that a rank would say. */
START_TEST(garbage) {
  set_up(2);
  start(0, gather);
  srand((unsigned)_i + 1);
  for (int k = 0; k < 300; k++) {
    sp_hello h = good_hello(1);
    unsigned char *bytes = (unsigned char *)&h;
    size_t from = k % 3 ? sizeof h.magic : 0, n = (size_t)rand() % (sizeof h + 1);
    for (size_t i = from; i < sizeof h; i++) bytes[i] = (unsigned char)rand();
    int fd = call();
    send(fd, &h, k % 2 ? n : sizeof h, MSG_NOSIGNAL);
    close(fd);
  }
  start(1, gather);
  ck_assert_int_eq(end_all(), 2);
}
END_TEST

static int wrong_token(sp_ranks *r, sp_err *err) {
  (void)r;
  return sp_fail(err, SP_E_INTERNAL, "came in");
}

START_TEST(a_rank_of_another_job) {
  char why[256];
  set_up(2);
  start(0, gather);
  strcpy(opts.job, "other");
  start(1, wrong_token);
  pid_t other = pids[1];
  ck_assert_int_eq(waitpid(other, NULL, 0), other);
  snprintf(
      why, sizeof why,
      "port %d of this host is a job's of spcore, and you are none of its ranks: it is of another job (SPCORE_JOB)",
      s->port);
  ck_assert_str_eq(s->words[1], why);
  s->words[1][0] = 0;
  strcpy(opts.job, "test");
  start(1, gather);
  ck_assert_int_eq(end_all(), 2);
}
END_TEST

static const struct {
  const char *words;
  int rank, ranks, link, protocol;
  const char *version;
} wrong[] = {
    {"rank 2 on elsewhere is of spcore 9.9 (protocol 2), rank 0 of spcore " PACKAGE_VERSION " (protocol 2)", 2, 3, 0, 2,
     "9.9"},
    {"rank 2 on elsewhere is of spcore " PACKAGE_VERSION " (protocol 3), rank 0 of spcore " PACKAGE_VERSION
     " (protocol 2)",
     2, 3, 0, 3, PACKAGE_VERSION},
    {"rank 2 on elsewhere knows of 4 ranks, rank 0 of 3", 2, 4, 0, 2, PACKAGE_VERSION},
    {"a process on elsewhere says that it is rank 3 of 3", 3, 3, 0, 2, PACKAGE_VERSION},
    {"a process on elsewhere says that it is rank -1 of 3", -1, 3, 0, 2, PACKAGE_VERSION},
    {"a process on elsewhere says that it is rank 2 of 3", 2, 3, 1 << 30, 2, PACKAGE_VERSION},
    {"two processes say that they are rank 0 of 3: one on this host, one on elsewhere (process 4711)", 0, 3, 0, 2,
     PACKAGE_VERSION},
};

/* A mistake in a rank of the job ends it, with the same line on all. */
START_TEST(wrong_ranks) {
  set_up(3);
  sp_hello h = good_hello(wrong[_i].rank);
  h.ranks = wrong[_i].ranks;
  h.link = wrong[_i].link;
  h.protocol = (uint32_t)wrong[_i].protocol;
  strcpy(h.version, wrong[_i].version);
  start(0, gather);
  start(1, gather);
  await_calls(1); /* rank 1 is at the door */
  ck_assert_str_eq(say(&h, sizeof h), wrong[_i].words);
  ck_assert_int_eq(end_all(), 0);
  ck_assert_str_eq(s->words[0], wrong[_i].words);
  ck_assert_str_eq(s->words[1], wrong[_i].words);
}
END_TEST

/* Who has not said anything yet may be a rank, too. */
START_TEST(those_at_the_door_are_told) {
  sp_welcome w;
  int fd[10];
  set_up(3);
  sp_hello h = good_hello(3);
  start(0, gather);
  for (size_t i = 0; i < SP_ARRAY(fd); i++) fd[i] = call();
  const char *why = say(&h, sizeof h);
  for (size_t i = 0; i < SP_ARRAY(fd); i++) {
    ck_assert_int_eq(recv(fd[i], &w, sizeof w, MSG_WAITALL), (ssize_t)sizeof w);
    ck_assert_str_eq(w.words, why);
    close(fd[i]);
  }
  ck_assert_int_eq(end_all(), 0);
}
END_TEST

START_TEST(the_same_rank_twice) {
  const char *words = "two processes say that they are rank 1 of 3: one on nearby, one on elsewhere (process 4711)";
  sp_welcome w;
  int fd[SP_LINKS];
  set_up(3);
  sp_hello first = good_hello(1), second = good_hello(1);
  strcpy(first.host, "nearby");
  start(0, gather);
  for (first.link = 0; first.link < SP_LINKS; first.link++) {
    fd[first.link] = call();
    ck_assert_int_eq(send(fd[first.link], &first, sizeof first, MSG_NOSIGNAL), (ssize_t)sizeof first);
  }
  ck_assert_str_eq(say(&second, sizeof second), words);
  for (int i = 0; i < SP_LINKS; i++) {
    ck_assert_int_eq(recv(fd[i], &w, sizeof w, MSG_WAITALL), (ssize_t)sizeof w);
    ck_assert_str_eq(w.words, words);
    close(fd[i]);
  }
  ck_assert_int_eq(end_all(), 0);
  ck_assert_str_eq(s->words[0], words);
}
END_TEST

START_TEST(ranks_that_do_not_come) {
  char words[256];
  set_up(5);
  opts.start = 1;
  start(1, gather);
  start(2, gather);
  await_calls(2 * SP_LINKS); /* rank 0 finds them at the door */
  start(0, gather);
  ck_assert_int_eq(end_all(), 0);
  snprintf(words, sizeof words,
           "ranks 3, 4 did not come to 127.0.0.1 port %d within 1 s, where rank 0 waits (WORLD_SIZE=5)", s->port);
  for (int i = 0; i < 3; i++) ck_assert_str_eq(s->words[i], words);
}
END_TEST

START_TEST(nobody_listens) {
  char words[256];
  set_up(2);
  close(s->listener);
  opts.start = 0.3;
  start(1, gather);
  ck_assert_int_eq(end_all(), 0);
  snprintf(words, sizeof words, "rank 1 of 2 did not find rank 0 at 127.0.0.1 port %d within 0.3 s: Connection refused",
           s->port);
  ck_assert_str_eq(s->words[1], words);
}
END_TEST

START_TEST(no_such_host) {
  set_up(2);
  strcpy(opts.address, "256.1.1.1");
  setenv("RES_OPTIONS", "timeout:1 attempts:1", 1); /* a server of names that does not answer is not waited for */
  start(1, gather);
  ck_assert_int_eq(end_all(), 0);
  const char *words = "'256.1.1.1', where rank 0 should be: ", *cure = " (SPCORE_ADDR says another host)";
  ck_assert_msg(strstr(s->words[1], words) == s->words[1] && strstr(s->words[1], cure), "%s", s->words[1]);
}
END_TEST

/* Another program has the port. */
START_TEST(somebody_else_listens) {
  char words[256], text[600] = "HTTP/1.1 400 Bad Request\r\n";
  set_up(2);
  start(1, gather);
  for (int i = 0; i < 2; i++) {
    int fd;
    while ((fd = accept(s->listener, NULL, NULL)) < 0) usleep(1000);
    ck_assert_int_eq(send(fd, text, sizeof text, MSG_NOSIGNAL), (ssize_t)sizeof text);
  }
  ck_assert_int_eq(end_all(), 0);
  snprintf(words, sizeof words,
           "127.0.0.1 port %d is no rank 0 of spcore, but another program: SPCORE_PORT says another port", s->port);
  ck_assert_str_eq(s->words[1], words);
}
END_TEST

START_TEST(the_port_is_taken) {
  char words[256];
  set_up(2);
  int taken = s->listener;
  s->listener = -1; /* it has to listen by itself */
  start(0, gather);
  ck_assert_int_eq(end_all(), 0);
  snprintf(words, sizeof words,
           "rank 0 cannot listen on port %d: Address already in use (SPCORE_PORT says another port)", s->port);
  ck_assert_str_eq(s->words[0], words);
  close(taken);
}
END_TEST

/* ---- at ---------------------------------------------------------------------------------------------------------- */

static void *say_often(void *arg) {
  for (uint64_t i = 0; i < 200000; i++)
    sp_ranks_at(arg, i, i % 2 ? "a" : "a stage with quite a long name", i % 3 ? NULL : "others");
  return NULL;
}

static int two_threads(sp_ranks *r, sp_err *err) {
  pthread_t other;
  (void)err;
  pthread_create(&other, NULL, say_often, r);
  say_often(r);
  pthread_join(other, NULL);
  return SP_OK;
}

START_TEST(where_it_is_from_two_threads) {
  start_all(2, two_threads);
  ck_assert_int_eq(end_all(), 2);
}
END_TEST

/* ---- how long it waits ------------------------------------------------------------------------------------------- */

/* More than no time, or `least`, and no more than went by around it. */
static int waited_within(double waited, double least, double most, sp_err *err) {
  if (waited > 0 && waited >= least && waited <= most) return SP_OK;
  return sp_fail(err, SP_E_INTERNAL, "waited %.9g s of %.9g to %.9g s", waited, least, most);
}

/* Two waits at once are one, and beside work there is none; a call between ranks is one, too. */
static int wait_and_work(sp_ranks *r, sp_err *err) {
  double before = sp_ranks_waited(r), outer = sp_now(), inner, again, waited;
  sp_ranks_wait(r, true);
  inner = sp_now();
  sp_ranks_wait(r, true);
  usleep(100000);
  sp_ranks_wait(r, false);
  inner = sp_now() - inner;
  sp_ranks_work(r, true);
  outer = sp_now() - outer;
  usleep(100000);
  again = sp_now();
  sp_ranks_work(r, false);
  sp_ranks_wait(r, false);
  outer += sp_now() - again;
  usleep(100000);
  waited = sp_ranks_waited(r) - before;
  if (waited_within(waited, inner, outer, err)) return err->status;
  /* Rank 0 waits for rank 1, most of the time that a call takes: in one at least, of a machine that may be busy. */
  char seen = 0, all[2] = {0};
  for (int turn = 0; turn < 50 && !all[0]; turn++) {
    if (sp_ranks_opts(r)->rank == 1) usleep(20000);
    before = sp_ranks_waited(r);
    outer = sp_now();
    if (sp_ranks_exchange(r, &seen, 1, all, err)) return err->status;
    outer = sp_now() - outer;
    waited = sp_ranks_waited(r) - before;
    if (waited_within(waited, 0, outer, err)) return err->status;
    seen = waited > outer / 2;
  }
  return all[0] ? SP_OK : sp_fail(err, SP_E_INTERNAL, "rank 0 never waits for a call between ranks");
}

START_TEST(how_long_it_waits) {
  start_all(2, wait_and_work);
  int good = end_all();
  ck_assert_msg(good == 2, "%s, %s", s->words[0], s->words[1]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("ranks");
  TCase *c = tcase_create("data"), *join = tcase_create("join");
  tcase_set_timeout(c, 60);
  tcase_set_timeout(join, 60);
  tcase_add_loop_test(c, data_between_ranks, 0, (int)SP_ARRAY(crews));
  tcase_add_test(c, one_rank_is_no_job);
  tcase_add_test(c, calls_that_differ);
  tcase_add_test(c, what_must_be_the_same);
  tcase_add_test(c, where_it_is_from_two_threads);
  tcase_add_test(c, how_long_it_waits);
  tcase_add_test(join, strangers);
  tcase_add_test(join, strangers_in_a_crowd);
  tcase_add_loop_test(join, garbage, 0, 3);
  tcase_add_test(join, a_rank_of_another_job);
  tcase_add_loop_test(join, wrong_ranks, 0, (int)SP_ARRAY(wrong));
  tcase_add_test(join, those_at_the_door_are_told);
  tcase_add_test(join, the_same_rank_twice);
  tcase_add_test(join, ranks_that_do_not_come);
  tcase_add_test(join, nobody_listens);
  tcase_add_test(join, no_such_host);
  tcase_add_test(join, somebody_else_listens);
  tcase_add_test(join, the_port_is_taken);
  suite_add_tcase(suite, c);
  suite_add_tcase(suite, join);
  return suite_run(suite);
}
