/* SPDX-License-Identifier: MIT
 * cases.c - the conformance suite of communicators: the rules of spcore/comm.h, which hold for every one. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"

static void must(rank *k, int kind, void *dst, const void *src, size_t bytes, int root) {
  call c;
  WANT(k, make(k, &c, kind, dst, src, bytes, root) == SP_OK, "call %d of %zu bytes: %s", kind, bytes, c.err.msg);
}

/* ---- bytes that say whose they are ------------------------------------------------------------------------------- */

static void copy(rank *k, void *dst, const void *src, size_t bytes) {
  WANT(k, k->device->stream_copy(ctx_of(k), k->stream, dst, src, bytes) == SP_OK, "%s", k->err.msg);
  wait_for(k);
}

/* What rank `from` sends to rank `to` in call number `salt`. */
static uint64_t word_of(int from, int to, unsigned salt, size_t i) {
  return (i + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)(from * 64 + to) << 32 ^ (uint64_t)salt << 17;
}

static void fill(char *p, size_t bytes, int from, int to, unsigned salt) {
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t w = word_of(from, to, salt, i / 8);
    memcpy(p + i, &w, bytes - i < 8 ? bytes - i : 8);
  }
}

static void check(const rank *k, const char *p, size_t bytes, int from, int to, unsigned salt) {
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t w = word_of(from, to, salt, i / 8);
    WANT(k, memcmp(p + i, &w, bytes - i < 8 ? bytes - i : 8) == 0,
         "call %u: byte %zu or later of %zu from rank %d is wrong", salt, i, bytes, from);
  }
}

/* ---- moves: every call, size and place --------------------------------------------------------------------------- */

/* Memory on both sides, and what the host makes of it. */
typedef struct sides {
  memory src, dst;
  char *host;
  size_t cap;
} sides;

static void move_to_all(rank *k, const sides *m, size_t each, unsigned salt) {
  for (int r = 0; r < k->n; r++) fill(m->host + (size_t)r * each, each, k->r, r, salt);
  copy(k, m->src.at, m->host, (size_t)k->n * each);
  must(k, ALL_TO_ALL, m->dst.at, m->src.at, each, 0);
  copy(k, m->host, m->dst.at, (size_t)k->n * each);
  for (int r = 0; r < k->n; r++) check(k, m->host + (size_t)r * each, each, r, k->r, salt);
}

/* Somebody reads a rank's own piece while it is gathered in place. */
typedef struct reader {
  const char *at, *want;
  size_t bytes;
  atomic_bool begun, over;
  bool differs;
} reader;

static void *read_on(void *arg) {
  reader *r = arg;
  do {
    r->differs |= memcmp(r->at, r->want, r->bytes) != 0;
    atomic_store(&r->begun, true);
  } while (!atomic_load(&r->over));
  return NULL;
}

static void move_gather(rank *k, const sides *m, size_t each, unsigned salt, bool in_place) {
  char *src = in_place ? m->dst.at + (size_t)k->r * each : m->src.at;
  reader own = {.at = src, .want = m->host, .bytes = each};
  pthread_t thread;
  bool read = in_place && strcmp(k->type->device, "cpu") == 0;
  fill(m->host, each, k->r, 0, salt);
  copy(k, src, m->host, each);
  WANT(k, !read || pthread_create(&thread, NULL, read_on, &own) == 0, "no thread");
  while (read && !atomic_load(&own.begun)) usleep(10);
  must(k, ALL_GATHER, m->dst.at, src, each, 0);
  atomic_store(&own.over, true);
  if (read) pthread_join(thread, NULL);
  WANT(k, !own.differs, "all_gather in place changes the own piece meanwhile");
  copy(k, m->host, m->dst.at, (size_t)k->n * each);
  for (int r = 0; r < k->n; r++) check(k, m->host + (size_t)r * each, each, r, 0, salt);
}

static void move_broadcast(rank *k, const sides *m, size_t bytes, unsigned salt, int root) {
  fill(m->host, bytes, k->r, 1, salt);
  copy(k, m->dst.at, m->host, bytes);
  must(k, BROADCAST, m->dst.at, NULL, bytes, root);
  copy(k, m->host, m->dst.at, bytes);
  check(k, m->host, bytes, root, 1, salt);
}

enum { LISTED = 5 };

/* Several gathers in one call, in place but the third of `out`. */
static void move_list(rank *k, const sides *m, const size_t *each, bool out, unsigned salt) {
  sp_comm_gather list[LISTED];
  size_t at[LISTED], room = 0;
  for (size_t i = 0; i < LISTED; room += ((size_t)k->n * each[i] + 15) / 16 * 16, i++) at[i] = room;
  WANT(k, room <= m->cap, "there is room for %zu bytes, not for %zu", m->cap, room);
  for (size_t i = 0; i < LISTED; i++) {
    char *dst = m->dst.at + at[i], *src = out && i == 2 ? m->src.at : dst + (size_t)k->r * each[i];
    list[i] = (sp_comm_gather){dst, src, each[i]};
    fill(m->host, each[i], k->r, (int)i, salt);
    if (each[i]) copy(k, src, m->host, each[i]);
  }
  must(k, ALL_GATHER_LIST, NULL, list, LISTED, 0);
  for (size_t i = 0; i < LISTED; i++) {
    if (each[i]) copy(k, m->host, m->dst.at + at[i], (size_t)k->n * each[i]);
    for (int r = 0; r < k->n; r++) check(k, m->host + (size_t)r * each[i], each[i], r, (int)i, salt);
  }
}

static void move_lists(rank *k, const sides *m, unsigned salt) {
  static const size_t lists[][LISTED] = {{4096, 0, 24, 70000, 255},
                                         {70000, 70000, 70000, 70000, 70000},
                                         {255, 255, 255, 255, 255},
                                         {1u << 20, 2u << 20},
                                         {0}};
  for (size_t i = 0; k->type->all_gather_list && i < sizeof lists / sizeof *lists; i++)
    move_list(k, m, lists[i], i == 0, salt + (unsigned)i);
  if (k->type->all_gather_list) must(k, ALL_GATHER_LIST, NULL, NULL, 0, 0);
}

static void move_all(rank *k, bool own, const size_t *sizes, size_t n_sizes) {
  unsigned salt = own ? 1000 : 0;
  sides m = {.cap = (size_t)k->n * sizes[n_sizes - 1]};
  void *host;
  m.src = take(k, own, m.cap);
  m.dst = take(k, own, m.cap);
  WANT(k, k->device->alloc(ctx_of(k), k->dev, SP_MEM_PINNED, m.cap, &host) == SP_OK, "%s", k->err.msg);
  m.host = host;
  for (size_t i = 0; i < n_sizes; i++) {
    move_to_all(k, &m, sizes[i], ++salt);
    move_gather(k, &m, sizes[i], ++salt, false);
    move_gather(k, &m, sizes[i], ++salt, true);
    move_broadcast(k, &m, sizes[i], ++salt, 0);
    move_broadcast(k, &m, sizes[i], ++salt, k->n - 1);
  }
  if (own) move_lists(k, &m, salt + 1);
  k->device->free(k->dev, SP_MEM_PINNED, host);
  give(k, m.src);
  give(k, m.dst);
}

/* Nothing stays behind when a rank is killed, whenever that is: what is shared has no name in any folder. */
static void no_names(rank *k) {
  char line[512];
  int mapped = 0;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) {
    mapped += strstr(line, "/memfd:spcore-local") != NULL;
    WANT(k, !strstr(line, "/dev/shm/spcore") || strstr(line, "(deleted)"), "it has a name: %s", line);
  }
  if (f) fclose(f);
  WANT(k, mapped || strcmp(k->type->name, "local") != 0, "nothing of spcore-local is mapped");
}

static void moves(rank *k) {
  static const size_t sizes[] = {0, 1, 255, 4096, 3u << 20};
  begin(k);
  no_names(k);
  must(k, ALL_TO_ALL, NULL, NULL, 0, 0);
  must(k, ALL_GATHER, NULL, NULL, 0, 0);
  must(k, BROADCAST, NULL, NULL, 0, 0);
  move_all(k, false, sizes, 4);
  move_all(k, true, sizes, 5);
  give(k, take(k, true, 0));
  WANT(k, k->type->poll(ctx_of(k), k->comm) == SP_OK, "poll: %s", k->err.msg);
  end(k);
  begin(k); /* and once more */
  must(k, BROADCAST, k, NULL, 0, 0);
  end(k);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

#define SOON 15 /* seconds, of a machine that may have much to do; a call that ends by itself alone never does */

/* Behind the rank as the core's watcher is: aborts when its time has come, or a rank is gone. */
typedef struct watcher {
  rank *k;
  double at; /* 0: when a rank is gone */
  _Atomic double aborted;
} watcher;

static void *watch(void *arg) {
  watcher *w = arg;
  while (w->at ? sp_now() < w->at : !atomic_load(&w->k->board->ranks_gone)) usleep(2000);
  atomic_store(&w->aborted, sp_now());
  w->k->type->abort(w->k->comm);
  return NULL;
}

static void failed_for_good(rank *k, memory m) {
  call c;
  void *p;
  double from = sp_now();
  WANT(k, k->type->poll(ctx_of(k), k->comm) != SP_OK && *k->err.msg, "poll is content, or has no words");
  WANT(k, make(k, &c, ALL_GATHER, m.at, m.at + (size_t)k->r * 8, 8, 0) != SP_OK, "a call after the end is content");
  WANT(k, make(k, &c, BROADCAST, m.at, NULL, 8, 0) != SP_OK, "a call after the end is content");
  WANT(k, k->type->alloc(ctx_of(k), k->comm, 8, &p) != SP_OK, "alloc after the end is content");
  WANT(k, sp_now() - from < SOON, "calls after the end take %.1f s", sp_now() - from);
}

/* Calls until one fails, which must come soon after the watcher's abort. */
static void ends_in_time(rank *k, watcher *w, void *(*beside)(void *), size_t each) {
  pthread_t thread;
  call c;
  memory m = take(k, true, (size_t)k->n * each);
  barrier(k);
  WANT(k, pthread_create(&thread, NULL, beside, w) == 0, "no thread");
  while (make(k, &c, ALL_GATHER, m.at, m.at + (size_t)k->r * each, each, 0) == SP_OK) {
    if (sp_now() > w->at + SOON && w->at) die(k, "no call fails");
  }
  double ended = sp_now();
  pthread_join(thread, NULL);
  WANT(k, ended - atomic_load(&w->aborted) < SOON, "the call ended %.1f s after abort()", ended - w->aborted);
  failed_for_good(k, m);
  k->type->abort(k->comm); /* again */
  give(k, m);
}

/* Rank 0 is not there: the others wait. */
static void abort_waiting(rank *k) {
  begin(k);
  watcher w = {.k = k, .at = sp_now() + 0.3};
  if (k->r || k->n == 1) {
    ends_in_time(k, &w, watch, 4096);
  } else {
    memory m = take(k, true, (size_t)k->n * 4096);
    barrier(k);
    usleep(300000);
    k->type->abort(k->comm);
    failed_for_good(k, m);
    give(k, m);
  }
  barrier(k);
  end(k);
}

/* Rank 0 takes no memory, which the others wait for: of communicators whose ranks map each other's. */
static void abort_alloc(rank *k) {
  pthread_t thread;
  void *p = NULL;
  begin(k);
  watcher w = {.k = k, .at = sp_now() + 0.3};
  barrier(k);
  WANT(k, pthread_create(&thread, NULL, watch, &w) == 0, "no thread");
  if (k->r) WANT(k, k->type->alloc(ctx_of(k), k->comm, 4096, &p) != SP_OK, "alloc does not wait for rank 0");
  double ended = sp_now();
  pthread_join(thread, NULL);
  WANT(k, ended - atomic_load(&w.aborted) < SOON, "alloc ended %.1f s after abort()", ended - w.aborted);
  barrier(k);
  end(k);
}

/* One rank aborts, the others notice by themselves: of communicators that share memory. */
static void abort_of_one(rank *k) {
  begin(k);
  memory m = take(k, true, (size_t)k->n * 4096);
  barrier(k);
  double from = sp_now();
  call c;
  if (k->r) make(k, &c, ALL_GATHER, m.at, m.at + (size_t)k->r * 4096, 4096, 0);
  else usleep(100000), k->type->abort(k->comm);
  WANT(k, sp_now() - from < SOON, "%.1f s until another rank's abort() is noticed", sp_now() - from);
  failed_for_good(k, m);
  WANT(k, !k->r || strstr(c.err.msg, "rank 0 has aborted the communicator"), "%s", c.err.msg);
  give(k, m);
  end(k);
}

/* Rank 1 is killed in the midst of calls; whoever watches over the others aborts. */
static void *kill_soon(void *arg) {
  rank *k = ((watcher *)arg)->k;
  usleep(100000);
  if (getenv("SP_BOARD")) atomic_store(&k->board->ranks_gone, 1); /* there is no parent of ours to tell it */
  raise(SIGKILL);
  return NULL;
}

static void killed(rank *k) {
  begin(k);
  watcher w = {.k = k};
  ends_in_time(k, &w, k->r == 1 ? kill_soon : watch, 3u << 20);
  end(k);
}

/* ---- wrong use --------------------------------------------------------------------------------------------------- */

static void refused(rank *k, int kind, size_t at, size_t bytes, int root, const char *words) {
  call c;
  begin(k);
  memory m = take(k, true, 4096);
  barrier(k);
  WANT(k, make(k, &c, kind, m.at, at ? m.at + at : NULL, bytes, root) == SP_E_INVALID, "not refused: %s", words);
  WANT(k, strstr(c.err.msg, words), "'%s' does not say '%s'", c.err.msg, words);
  failed_for_good(k, m);
  give(k, m);
  barrier(k);
  end(k);
}

/* One of a list, of which the others are right. */
static void refused_in_list(rank *k) {
  call c;
  begin(k);
  memory m = take(k, true, 4096);
  sp_comm_gather list[] = {{m.at, m.at + 8 * k->r, 8}, {m.at + 1024, NULL, 8}};
  barrier(k);
  WANT(k, make(k, &c, ALL_GATHER_LIST, NULL, list, 2, 0) == SP_E_INVALID, "a list with NULL is not refused");
  WANT(k, strstr(c.err.msg, "8 bytes at NULL"), "%s", c.err.msg);
  failed_for_good(k, m);
  give(k, m);
  barrier(k);
  end(k);
}

static int no_exchange(const sp_comm_boot *boot, const void *mine, size_t bytes, void *all) {
  (void)mine, (void)bytes, (void)all;
  return sp_fail(&((rank *)boot->impl)->err, SP_E_IO, "rank 3 is gone");
}

static void not_opened(rank *k, sp_comm_boot boot, int status, const char *words) {
  sp_comm_boot good = k->boot;
  k->boot = boot;
  int rc = try_open(k);
  WANT(k, rc == status && strstr(k->err.msg, words), "open: %d '%s', not %d '%s'", rc, k->err.msg, status, words);
  k->boot = good;
}

static void wrong(rank *k) {
  sp_comm_boot boot = k->boot;
  refused(k, BROADCAST, 0, 8, k->n, "broadcast from rank 2 of 2");
  refused(k, ALL_TO_ALL, 4, 8, 0, "all_to_all is not done in place");
  refused(k, ALL_GATHER, 4 + 8 * (size_t)k->r, 8, 0, "all_gather in place wants src at dst + rank * each");
  refused(k, ALL_GATHER, 0, 8, 0, "8 bytes at NULL");
  refused(k, ALL_TO_ALL, 0, SIZE_MAX / 2, 0, "NULL");
  refused(k, ALL_GATHER, 8, SIZE_MAX / 2, 0, "are too many");
  if (k->type->all_gather_list) refused_in_list(k);
  boot.rank = k->n;
  not_opened(k, boot, SP_E_INVALID, "there is no rank");
  boot = k->boot;
  boot.job = "";
  not_opened(k, boot, SP_E_INVALID, "the job has no name");
  boot = k->boot;
  boot.exchange = no_exchange;
  not_opened(k, boot, SP_E_IO, "rank 3 is gone");
  begin(k);
  void *p;
  WANT(k, k->type->alloc(ctx_of(k), k->comm, SIZE_MAX - 7, &p) == SP_E_NOMEM, "alloc of all there can be");
  WANT(k, strstr(k->err.msg, "18446744073709551608 bytes"), "%s", k->err.msg);
  end(k);
}

/* Of a communicator that compares the ranks' calls. */
static void differ(rank *k) {
  call c;
  begin(k);
  memory m = take(k, true, 4096);
  barrier(k);
  size_t each = k->r == 1 ? 200 : 100;
  WANT(k, make(k, &c, ALL_GATHER, m.at, m.at + (size_t)k->r * each, each, 0) != SP_OK, "different sizes are content");
  bool said = strstr(c.err.msg, "calls all_gather of 200 bytes where rank") ||
              strstr(c.err.msg, "bytes where rank 1 calls all_gather of 200") ||
              strstr(c.err.msg, "has aborted the communicator");
  WANT(k, said, "%s", c.err.msg);
  give(k, m);
  barrier(k);
  end(k);
}

static void one_host(rank *k) {
  sp_comm_boot boot = k->boot;
  boot.local_ranks = 1;
  not_opened(k, boot, SP_E_UNSUPPORTED, "'local' is for the ranks of one host: there are 2, 1 of them here");
}

const test_case cases[] = {{"moves", moves},   {"abort", abort_waiting},     {"abort_of_one", abort_of_one},
                           {"kill", killed},   {"abort_alloc", abort_alloc}, {"wrong", wrong},
                           {"differ", differ}, {"one_host", one_host},       {NULL, NULL}};
