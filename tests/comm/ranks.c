/* SPDX-License-Identifier: MIT
 * ranks.c - runs a case of cases.c on several ranks: ranks COMM CASE N, or with SP_THREADS set as threads of one
 * process; under mpirun each process is a rank, and SP_BOARD names a file of zeros that they share. */
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 150 /* seconds, of a machine that may be slow: what hangs ends all the same */

void die(const rank *k, const char *fmt, ...) {
  char words[2048];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(words, sizeof words, fmt, ap);
  va_end(ap);
  fprintf(stderr, "FAIL: rank %d of %d: %s\n", k->r, k->n, words);
  atomic_store(&k->board->ranks_gone, 1);
  _exit(1);
}

static int arrive(board *b, uint32_t *rounds, int n) {
  uint32_t all = ++*rounds * (uint32_t)n;
  double end = sp_now() + PATIENCE;
  atomic_fetch_add(&b->arrived, 1);
  while (atomic_load(&b->arrived) < all) {
    if (atomic_load(&b->ranks_gone) || sp_now() > end) return SP_E_IO;
    usleep(100);
  }
  return SP_OK;
}

void barrier(rank *k) {
  if (arrive(k->board, &k->rounds, k->n)) die(k, "another rank is gone");
}

int exchange(const sp_comm_boot *boot, const void *mine, size_t bytes, void *all) {
  rank *k = boot->impl;
  WANT(k, bytes <= sizeof k->board->slot[0], "%zu bytes at once are no small message", bytes);
  memcpy(k->board->slot[k->r], mine, bytes);
  int rc = arrive(k->board, &k->rounds, k->n);
  if (rc) return sp_fail(&k->err, rc, "the control connection is closed");
  for (int r = 0; r < k->n; r++) memcpy((char *)all + (size_t)r * bytes, k->board->slot[r], bytes);
  return arrive(k->board, &k->rounds, k->n);
}

sp_ctx *ctx_of(rank *k) { return sp_ctx_for(&k->holder, "comm", &k->err); }

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

static void load(rank *k, const char *comm) {
  int n;
  if (!k->env && sp_env_new(&k->env, &(sp_env_opts){.threads = 1}, &k->err)) die(k, "%s", k->err.msg);
  if (sp_registry_comm(k->env->reg, comm, &k->type, &k->err)) die(k, "%s", k->err.msg);
  if (sp_registry_device(k->env->reg, k->type->device, &k->device, &k->err)) die(k, "%s", k->err.msg);
  if (k->device->count(ctx_of(k), &n) || k->device->open(ctx_of(k), k->r % n, &k->dev)) die(k, "%s", k->err.msg);
}

static void run(rank *k, const char *job, const char *which) {
  const char *of = getenv("SP_LOCAL_RANKS"); /* so many are on a host: what a communicator makes of several */
  int local = of ? atoi(of) : k->n;
  k->boot = (sp_comm_boot){.size = sizeof k->boot,
                           .rank = k->r,
                           .ranks = k->n,
                           .local_rank = k->r % local,
                           .local_ranks = local,
                           .job = job,
                           .impl = k,
                           .exchange = exchange};
  for (const test_case *c = cases; c->name; c++)
    if (strcmp(c->name, which) == 0) c->run(k);
  k->device->close(k->dev);
}

/* ---- processes and threads --------------------------------------------------------------------------------------- */

static char job[64];
static const char *comm, *which;

static int one_process(board *b, int r, int n) {
  rank k = {.r = r, .n = n, .board = b};
  load(&k, comm);
  run(&k, job, which);
  sp_env_free(k.env);
  if (getenv("SP_BOARD")) printf("rank %d: passed\n", r); /* mpirun's status says something else */
  return 0;
}

static void kill_all(const pid_t *pid, int n) {
  for (int i = 0; i < n; i++) kill(pid[i], SIGKILL);
}

/* Open MPI makes a folder in TMPDIR, which fails now and then where two processes that nobody has started begin at
 * once. */
static void own_folder(int r) {
  const char *in = getenv("SP_TMPDIRS");
  char path[4096];
  if (!in) return;
  snprintf(path, sizeof path, "%s/%d", in, r);
  mkdir(path, 0700);
  setenv("TMPDIR", path, 1);
}

/* A rank that the case has killed is no failure, but the others must hear of it. */
static int fork_all(board *b, int n) {
  pid_t pid[RANKS];
  int failed = 0, status;
  for (int r = 0; r < n; r++) {
    pid[r] = fork();
    if (pid[r] == 0) {
      own_folder(r);
      exit(one_process(b, r, n));
    }
    if (pid[r] < 0) return perror("fork"), kill_all(pid, r), 1;
  }
  for (int i = 0; i < n; i++) {
    if (wait(&status) < 0) return perror("wait"), 1;
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && strcmp(which, "kill") == 0;
    if (status && !killed && !failed) {
      if (WIFSIGNALED(status)) fprintf(stderr, "a rank of %d was ended by signal %d\n", n, WTERMSIG(status));
      kill_all(pid, n);
      failed = 1;
    }
    if (killed) atomic_store(&b->ranks_gone, 1);
  }
  return failed;
}

static void *one_thread(void *arg) {
  run(arg, job, which);
  return NULL;
}

static int thread_all(board *b, int n) {
  rank k[RANKS] = {0};
  pthread_t thread[RANKS];
  for (int r = 0; r < n; r++) {
    k[r] = (rank){.r = r, .n = n, .board = b, .env = r ? k[0].env : NULL};
    load(&k[r], comm);
  }
  WANT(&k[0], k[0].type->flags & SP_COMM_THREADS, "%s is not for threads", comm);
  for (int r = 0; r < n; r++)
    if (pthread_create(&thread[r], NULL, one_thread, &k[r])) die(&k[r], "no thread");
  for (int r = 0; r < n; r++) pthread_join(thread[r], NULL);
  sp_env_free(k[0].env);
  return 0;
}

static board *map_board(const char *path) {
  int fd = path ? open(path, O_RDWR) : -1;
  if (path && fd < 0) return NULL;
  void *at = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | (path ? 0 : MAP_ANONYMOUS), fd, 0);
  if (fd >= 0) close(fd);
  return at == MAP_FAILED ? NULL : at;
}

int main(int argc, char **argv) {
  const char *path = getenv("SP_BOARD"), *rank_of = getenv("OMPI_COMM_WORLD_RANK");
  board *b = map_board(path);
  int n = argc == 4 ? atoi(argv[3]) : 0;
  if (n < 1 || n > RANKS || !b) return fprintf(stderr, "usage: ranks COMM CASE 1..%d\n", RANKS), 2;
  comm = argv[1];
  which = argv[2];
  alarm(2 * PATIENCE);
  snprintf(job, sizeof job, "test/%s/%ld", path ? path : "", path ? 0L : (long)getpid());
  if (path && rank_of) return one_process(b, atoi(rank_of), n);
  return getenv("SP_THREADS") ? thread_all(b, n) : fork_all(b, n);
}
