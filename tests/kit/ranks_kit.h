/* SPDX-License-Identifier: MIT
 * ranks_kit.h - several processes as the ranks of a job, for tests of core/ranks. */
#ifndef SP_TEST_RANKS_KIT_H
#define SP_TEST_RANKS_KIT_H

#include <check.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks/impl.h"

#define MOST 8

/* What all processes of a test see. */
typedef struct shared {
  int ranks, port, listener;
  atomic_int aborted;
  atomic_int ready, called; /* ranks that are where the test wants them; calls of `failed` */
  char words[MOST][1536];   /* the failure that each has seen; "": none */
} shared;

static shared *s;
static pid_t pids[MOST];  /* 0: nobody waits for it */
static sp_rank_opts opts; /* of all ranks, but for the rank */

static void on_failed(void *arg, const sp_err *why, bool late) {
  (void)arg, (void)why;
  if (!late) atomic_fetch_add(&s->called, 1);
}

static void set_up(int ranks) {
  struct sockaddr_in at;
  socklen_t len = sizeof at;
  sp_err err;
  s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(s, MAP_FAILED);
  ck_assert_msg(!sp_net_listen("127.0.0.1", 0, &s->listener, &err), "%s", err.msg);
  ck_assert_int_eq(getsockname(s->listener, (struct sockaddr *)&at, &len), 0);
  memset(pids, 0, sizeof pids);
  s->ranks = ranks;
  s->port = ntohs(at.sin_port);
  opts = (sp_rank_opts){.ranks = ranks,
                        .local_ranks = ranks,
                        .address = "127.0.0.1",
                        .port = s->port,
                        .job = "test",
                        .origin = "WORLD_SIZE",
                        .start = 20,
                        .silence = 20,
                        .timeout = 20,
                        .failed = on_failed};
}

/* A rank's process: it opens, does that, closes. */
typedef int (*work)(sp_ranks *r, sp_err *err);

static void be_rank(int rank, work what) {
  sp_rank_opts o = opts;
  sp_ranks *r;
  sp_err err = {0};
  o.rank = o.local_rank = rank;
  o.listener = rank == 0 ? s->listener : -1;
  if (rank) close(s->listener);
  int rc = sp_ranks_open(&r, &o, &err);
  if (!rc && what) rc = what(r, &err);
  if (!rc) rc = sp_ranks_close(r, &err);
  else if (r) sp_ranks_close(r, &(sp_err){0});
  if (rc) memcpy(s->words[rank], err.msg, sizeof err.msg);
  _exit(rc ? 1 : 0);
}

static void start(int rank, work what) {
  pids[rank] = fork();
  ck_assert_int_ge(pids[rank], 0);
  if (pids[rank] == 0) be_rank(rank, what);
}

static void start_all(int ranks, work what) {
  set_up(ranks);
  for (int i = 0; i < ranks; i++) start(i, what);
}

/* Waits; how many have ended well. */
static int end_all(void) {
  int good = 0;
  for (int i = 0; i < s->ranks; i++) {
    int status;
    if (!pids[i]) continue;
    ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  close(s->listener);
  return good;
}

static void all_say(const char *words, int but) {
  for (int i = 0; i < s->ranks; i++)
    if (i != but) ck_assert_str_eq(s->words[i], words);
}

#endif
