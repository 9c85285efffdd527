/* SPDX-License-Identifier: MIT
 * local.c - communicator between the ranks of one host: processes, or threads of one. */
#include "local.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <spcore/plugin.h>

#include "../../kits/comm.h"

#define NAP_NS 100000000 /* a rank that aborts wakes nobody: sleepers look for themselves */

enum { ALL_TO_ALL, ALL_GATHER, BROADCAST };
static const char *const kinds[] = {"all_to_all", "all_gather", "broadcast"};

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void local_abort(void *comm) {
  local_comm *c = comm;
  uint32_t nobody = 0;
  atomic_compare_exchange_strong(&c->segment->aborted, &nobody, (uint32_t)c->rank + 1);
}

static int local_poll(sp_ctx *ctx, void *comm) {
  const local_comm *c = comm;
  uint32_t who = atomic_load(&c->segment->aborted);
  return who ? ctx->host->fail(ctx, SP_E_CANCELLED, "rank %u has aborted the communicator", who - 1) : SP_OK;
}

/* One failure ends the communicator for all. */
static int ended(local_comm *c, int status) {
  if (status) local_abort(c);
  return status;
}

/* ---- sleeping ---------------------------------------------------------------------------------------------------- */

/* Until the word is `want`, which it cannot pass before this rank has gone on. */
static int await(sp_ctx *ctx, local_comm *c, local_word *w, uint32_t want) {
  const struct timespec nap = {.tv_nsec = NAP_NS};
  for (;;) {
    uint32_t now = atomic_load(&w->value);
    int rc = local_poll(ctx, c);
    if (rc || now == want) return rc;
    atomic_fetch_add(&w->sleepers, 1);
    syscall(SYS_futex, &w->value, FUTEX_WAIT, now, &nap, NULL, 0);
    atomic_fetch_sub(&w->sleepers, 1);
  }
}

/* Adds one, and wakes those who wait for `wake`. */
static void count(local_word *w, uint32_t wake) {
  if (atomic_fetch_add(&w->value, 1) + 1 == wake && atomic_load(&w->sleepers))
    syscall(SYS_futex, &w->value, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

static local_box *box_of(local_comm *c, int rank) { return &c->segment->box[2 * rank + (int)(c->passed[rank] % 2)]; }

static char *data_of(local_comm *c, const local_box *box) {
  return c->data + (size_t)(box - c->segment->box) * c->bytes;
}

/* How often this box was filled, or will have been, once it is passed; all ranks but its own empty it as often. */
static uint32_t round_of(const local_comm *c, int rank) { return c->passed[rank] / 2 + 1; }

/* The own box that is next, empty. */
static int box_begin(sp_ctx *ctx, local_comm *c, char **data) {
  local_box *box = box_of(c, c->rank);
  *data = data_of(c, box);
  return await(ctx, c, &box->emptied, (round_of(c, c->rank) - 1) * (uint32_t)(c->ranks - 1));
}

static void box_filled(local_comm *c, const local_call *call) {
  local_box *box = box_of(c, c->rank);
  box->call = *call;
  count(&box->filled, round_of(c, c->rank));
  c->passed[c->rank]++;
}

static int check_same(sp_ctx *ctx, const local_comm *c, int rank, const local_call *theirs, const local_call *mine) {
  if (theirs->kind == mine->kind && theirs->root == mine->root && theirs->bytes == mine->bytes) return SP_OK;
  return ctx->host->fail(ctx, SP_E_INVALID, "rank %d calls %s of %llu bytes where rank %d calls %s of %llu", rank,
                         kinds[theirs->kind], (unsigned long long)theirs->bytes, c->rank, kinds[mine->kind],
                         (unsigned long long)mine->bytes);
}

/* The next box of another rank, full. */
static int box_wait(sp_ctx *ctx, local_comm *c, int rank, const local_call *call, const char **data) {
  local_box *box = box_of(c, rank);
  *data = data_of(c, box);
  int rc = await(ctx, c, &box->filled, round_of(c, rank));
  return rc ? rc : check_same(ctx, c, rank, &box->call, call);
}

static void box_emptied(local_comm *c, int rank) {
  count(&box_of(c, rank)->emptied, round_of(c, rank) * (uint32_t)(c->ranks - 1));
  c->passed[rank]++;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Every rank fills a box and empties those of all others, as often as it takes. `step`: from the piece of src for one
 * rank to that for the next; 0: one piece for all, which the box holds once. */
static int swap(sp_ctx *ctx, local_comm *c, const local_call *call, char *dst, const char *src, size_t step) {
  size_t each = call->bytes, part = step ? c->bytes / (size_t)c->ranks / LOCAL_LINE * LOCAL_LINE : c->bytes;
  for (size_t at = 0; at < each && c->ranks > 1; at += part) {
    size_t n = least(each - at, part);
    char *mine;
    int rc = box_begin(ctx, c, &mine);
    if (rc) return rc;
    for (size_t r = 0; r < (step ? (size_t)c->ranks : 1); r++) memcpy(mine + r * part, src + r * step + at, n);
    box_filled(c, call);
    for (int i = 1; i < c->ranks; i++) {
      int r = (c->rank + i) % c->ranks;
      const char *theirs;
      if ((rc = box_wait(ctx, c, r, call, &theirs))) return rc;
      memcpy(dst + (size_t)r * each + at, theirs + (step ? (size_t)c->rank * part : 0), n);
      box_emptied(c, r);
    }
  }
  return SP_OK;
}

static int local_all_to_all(sp_ctx *ctx, void *comm, void *dst, const void *src, size_t each) {
  local_comm *c = comm;
  const local_call call = {ALL_TO_ALL, 0, each};
  int rc = comm_check_to_all(ctx, c->ranks, dst, src, each);
  if (!rc) rc = local_poll(ctx, c);
  if (rc || !each) return ended(c, rc);
  size_t own = (size_t)c->rank * each;
  memcpy((char *)dst + own, (const char *)src + own, each);
  return ended(c, swap(ctx, c, &call, dst, src, each));
}

static int local_all_gather(sp_ctx *ctx, void *comm, void *dst, const void *src, size_t each) {
  local_comm *c = comm;
  const local_call call = {ALL_GATHER, 0, each};
  int rc = comm_check_gather(ctx, c->rank, c->ranks, dst, src, each);
  if (!rc) rc = local_poll(ctx, c);
  if (rc || !each) return ended(c, rc);
  char *own = (char *)dst + (size_t)c->rank * each;
  if (own != src) memcpy(own, src, each);
  return ended(c, swap(ctx, c, &call, dst, src, 0));
}

static int local_broadcast(sp_ctx *ctx, void *comm, void *buf, size_t bytes, int root) {
  local_comm *c = comm;
  const local_call call = {BROADCAST, root, bytes};
  int rc = comm_check_broadcast(ctx, c->ranks, buf, bytes, root);
  if (!rc) rc = local_poll(ctx, c);
  for (size_t at = 0; !rc && at < bytes && c->ranks > 1; at += c->bytes) {
    size_t n = least(bytes - at, c->bytes);
    char *to;
    const char *from;
    if (c->rank == root) {
      if ((rc = box_begin(ctx, c, &to))) break;
      memcpy(to, (char *)buf + at, n);
      box_filled(c, &call);
    } else {
      if ((rc = box_wait(ctx, c, root, &call, &from))) break;
      memcpy((char *)buf + at, from, n);
      box_emptied(c, root);
    }
  }
  return ended(c, rc);
}

/* ---- open and memory --------------------------------------------------------------------------------------------- */

static void local_close(void *comm) {
  local_comm *c = comm;
  if (!c) return;
  local_unmap(c);
  free(c->passed);
  free(c);
}

static int make(sp_ctx *ctx, const sp_comm_boot *boot, local_comm **c) {
  if (boot->local_ranks != boot->ranks)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "'local' is for the ranks of one host: there are %d, %d of them here",
                           boot->ranks, boot->local_ranks);
  *c = calloc(1, sizeof **c);
  if (*c) (*c)->passed = calloc((size_t)boot->ranks, sizeof *(*c)->passed);
  if (!*c || !(*c)->passed) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %d ranks", boot->ranks);
  (*c)->rank = boot->rank;
  (*c)->ranks = boot->ranks;
  return SP_OK;
}

static int local_open(sp_ctx *ctx, const sp_comm_boot *boot, void *dev, void **comm) {
  local_comm *c = NULL;
  (void)dev;
  int rc = comm_check_boot(ctx, boot, LOCAL_RANKS);
  if (rc) return rc;
  rc = comm_agree(ctx, boot, make(ctx, boot, &c));
  if (!rc) rc = local_map(ctx, boot, c);
  if (rc) local_close(c);
  else *comm = c;
  return rc;
}

static int local_alloc(sp_ctx *ctx, void *comm, size_t bytes, void **ptr) {
  int rc = local_poll(ctx, comm);
  return rc ? rc : comm_take(ctx, bytes, ptr);
}

static void local_free(void *comm, void *ptr) {
  (void)comm;
  free(ptr);
}

static const sp_comm_type local = {.size = sizeof(sp_comm_type),
                                   .flags = SP_COMM_THREADS,
                                   .name = "local",
                                   .device = "cpu",
                                   .doc = "Between ranks on the processors of one host, through shared memory",
                                   .open = local_open,
                                   .close = local_close,
                                   .abort = local_abort,
                                   .alloc = local_alloc,
                                   .free = local_free,
                                   .all_to_all = local_all_to_all,
                                   .all_gather = local_all_gather,
                                   .broadcast = local_broadcast,
                                   .poll = local_poll};
static const sp_comm_type *const comms[] = {&local, NULL};
SP_PLUGIN_ALL("comm_local", "Ranks on one host", NULL, NULL, NULL, comms);
