/* SPDX-License-Identifier: MIT
 * nccl.c - communicator between NVIDIA GPUs: NCCL, non-blocking, so that abort() finds nobody inside of it.
 *
 * The GPU is the calling thread's current one in every call but abort() and poll(). NCCL's own messages come with
 * NCCL_DEBUG=INFO. */
#include <nccl.h>

#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spcore/plugin.h>

#include "../../kits/comm.h"

#define HAVE_WINDOWS (NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0))
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0) && !defined COMM_NCCL_GROUPED
#define HAVE_ALL_TO_ALL 1
#else
#define HAVE_ALL_TO_ALL 0
#endif

#define NAP_NS 50000
#define SHORT_TURNS 200  /* before it naps */
#define OPEN_SECONDS 300 /* until all ranks are there */
#define CLOSE_SECONDS 2
#define ABORT_NS 700000000 /* that are waited for NCCL's abort: where a rank has died it may take seconds */
#define CALM_SECONDS 0.2   /* at most, before it */

#define BLOCK 4096 /* windows begin and end with one */

/* Bytes of a rank that are sent and received in one call rather than gathered in windows in several, which takes more
 * bytes a second: train_seg on two H200s is 1 % faster with up to 1.5 MiB, train_cls 1 % slower with 3. */
#define TOGETHER (2u << 20)

typedef struct nccl_block {
  struct nccl_block *next;
  char *ptr;
  size_t bytes;
#if HAVE_WINDOWS
  ncclWindow_t window;
#endif
} nccl_block;

typedef struct nccl_comm {
  int rank, ranks;
  bool windows;         /* blocks lie in some */
  pthread_mutex_t lock; /* whoever uses `native`, which abort() frees */
  ncclComm_t native;    /* NULL: aborted */
  ncclComm_t made;      /* NCCL's threads write it, as long as it opens: until `ending` is through */
  pthread_t ending;     /* ends what abort() has taken from `native` */
  bool ends;            /* it is there; */
  bool left;            /* it was at work for too long, and all that it may touch is the process's until that ends */
  char failed[256];     /* words; empty: not */
  nccl_block *blocks;
} nccl_comm;

/* ---- calls of NCCL ----------------------------------------------------------------------------------------------- */

/* With the lock held: a communicator that has failed before is not used again. */
static int state_of(sp_ctx *ctx, const nccl_comm *c) {
  if (*c->failed) return ctx->host->fail(ctx, SP_E_DEVICE, "%s", c->failed);
  return c->native ? SP_OK : ctx->host->fail(ctx, SP_E_CANCELLED, "this rank has aborted the communicator");
}

/* Takes the lock, unless the communicator is at its end. */
static int enter(sp_ctx *ctx, nccl_comm *c) {
  pthread_mutex_lock(&c->lock);
  int rc = state_of(ctx, c);
  if (rc) pthread_mutex_unlock(&c->lock);
  return rc;
}

static int failed(sp_ctx *ctx, nccl_comm *c, ncclResult_t rc, const char *what) {
  const char *more = ncclGetLastError(c->native);
  (void)cudaGetLastError();
  snprintf(c->failed, sizeof c->failed, "%s: NCCL: %s%s%.160s", what, ncclGetErrorString(rc), more && *more ? ": " : "",
           more ? more : "");
  c->failed[strcspn(c->failed, "\n")] = 0;
  return state_of(ctx, c);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ncclResult_t state_in_nccl(const nccl_comm *c) {
  ncclResult_t state, asked = ncclCommGetAsyncError(c->native, &state);
  return asked ? asked : state;
}

/* Waits without the lock until NCCL has done what it was asked for; a launch is done in a few microseconds. It is asked
 * whatever the call returned: ncclCommWindowRegister returns ncclSuccess when a thread of NCCL's has only just
 * begun. */
static int settle(sp_ctx *ctx, nccl_comm *c, ncclResult_t rc, double seconds, const char *what) {
  const struct timespec nap = {.tv_nsec = NAP_NS};
  double begun = now();
  if (rc == ncclSuccess) rc = state_in_nccl(c);
  for (int turns = 0; rc == ncclInProgress; turns++) {
    pthread_mutex_unlock(&c->lock);
    if (turns < SHORT_TURNS) sched_yield();
    else nanosleep(&nap, NULL);
    pthread_mutex_lock(&c->lock);
    if (!c->native) return state_of(ctx, c);
    rc = state_in_nccl(c);
    if (rc == ncclInProgress && now() - begun > seconds)
      return ctx->host->fail(ctx, SP_E_DEVICE, "%s: not done after %.0f s", what, seconds);
  }
  return rc == ncclSuccess ? SP_OK : failed(ctx, c, rc, what);
}

/* The same, of a call that enter() came before: gives the lock back. */
static int leave(sp_ctx *ctx, nccl_comm *c, ncclResult_t rc, const char *what) {
  int status = settle(ctx, c, rc, INFINITY, what);
  pthread_mutex_unlock(&c->lock);
  return status;
}

/* Of wrong arguments: the other ranks are in the call. */
static int refused(nccl_comm *c, int status) {
  pthread_mutex_lock(&c->lock);
  if (status && !*c->failed) snprintf(c->failed, sizeof c->failed, "an earlier call had wrong arguments");
  pthread_mutex_unlock(&c->lock);
  return status;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* As sends and receives: a piece of `src` for each rank, or all of it for everybody.
 * In place there is none for oneself. */
static ncclResult_t grouped(const nccl_comm *c, void *dst, const void *src, size_t each, bool same,
                            cudaStream_t stream) {
  bool own = !same || src != (const char *)dst + (size_t)c->rank * each;
  ncclResult_t rc = ncclGroupStart(), ended;
  for (int r = 0; !rc && r < c->ranks; r++) {
    size_t at = (size_t)r * each;
    if (r == c->rank && !own) continue;
    rc = ncclSend((const char *)src + (same ? 0 : at), each, ncclUint8, r, c->native, stream);
    if (!rc || rc == ncclInProgress) rc = ncclRecv((char *)dst + at, each, ncclUint8, r, c->native, stream);
    if (rc == ncclInProgress) rc = ncclSuccess; /* the group's end says it for all */
  }
  ended = ncclGroupEnd();
  return rc ? rc : ended;
}

static ncclResult_t to_all(const nccl_comm *c, void *dst, const void *src, size_t each, cudaStream_t stream) {
#if HAVE_ALL_TO_ALL
  return ncclAlltoAll(src, dst, each, ncclUint8, c->native, stream);
#else
  return grouped(c, dst, src, each, false, stream);
#endif
}

/* Before NCCL 2.28.7 its kernel for windows gives wrong bytes where `each` is no multiple of 8. */
static ncclResult_t gather(const nccl_comm *c, void *dst, const void *src, size_t each, cudaStream_t stream) {
  if (each % 8) return grouped(c, dst, src, each, true, stream);
  return ncclAllGather(src, dst, each, ncclUint8, c->native, stream);
}

static int nccl_all_to_all(sp_ctx *ctx, void *comm, void *dst, const void *src, size_t each) {
  nccl_comm *c = comm;
  int rc = comm_check_to_all(ctx, c->ranks, dst, src, each);
  if (rc) return refused(c, rc);
  if ((rc = enter(ctx, c))) return rc;
  return leave(ctx, c, each ? to_all(c, dst, src, each, ctx->stream) : ncclSuccess, "all_to_all");
}

static int nccl_all_gather(sp_ctx *ctx, void *comm, void *dst, const void *src, size_t each) {
  nccl_comm *c = comm;
  int rc = comm_check_gather(ctx, c->rank, c->ranks, dst, src, each);
  if (rc) return refused(c, rc);
  if ((rc = enter(ctx, c))) return rc;
  return leave(ctx, c, each ? gather(c, dst, src, each, ctx->stream) : ncclSuccess, "all_gather");
}

/* One kernel for all. That for windows leaves bytes out where sizes differ (2.28.3),
 * which sends and receives do not. */
static ncclResult_t gather_all(const nccl_comm *c, const sp_comm_gather *list, size_t n, bool alike,
                               cudaStream_t stream) {
  ncclResult_t rc = ncclGroupStart(), ended;
  for (size_t i = 0; !rc && i < n; i++) {
    const sp_comm_gather *g = &list[i];
    if (!g->each) continue;
    rc = alike ? gather(c, g->dst, g->src, g->each, stream) : grouped(c, g->dst, g->src, g->each, true, stream);
    if (rc == ncclInProgress) rc = ncclSuccess; /* the group's end says it for all */
  }
  ended = ncclGroupEnd();
  return rc ? rc : ended;
}

static int nccl_all_gather_list(sp_ctx *ctx, void *comm, const sp_comm_gather *list, size_t n) {
  nccl_comm *c = comm;
  bool alike = true;
  size_t all = 0;
  int rc = SP_OK;
  for (size_t i = 0; i < n && !rc; i++) {
    rc = comm_check_gather(ctx, c->rank, c->ranks, list[i].dst, list[i].src, list[i].each);
    alike = alike && list[i].each == list[0].each;
    all += rc ? 0 : list[i].each;
  }
  if (rc) return refused(c, rc);
  if (!alike && all > TOGETHER) {
    for (size_t i = 0; i < n && !rc; i++) rc = nccl_all_gather(ctx, c, list[i].dst, list[i].src, list[i].each);
    return rc;
  }
  if ((rc = enter(ctx, c))) return rc;
  return leave(ctx, c, gather_all(c, list, n, alike, ctx->stream), "all_gather_list");
}

/* NCCL's ring kernels wait for ever where 3 MiB lie in registered memory, as windows are (2.28.3);
 * sends and receives do not. */
static ncclResult_t from_one(const nccl_comm *c, void *buf, size_t bytes, int root, cudaStream_t stream) {
  const nccl_block *b = c->windows ? c->blocks : NULL;
  while (b && ((char *)buf < b->ptr || (char *)buf >= b->ptr + b->bytes)) b = b->next;
  if (!b) return ncclBroadcast(buf, buf, bytes, ncclUint8, root, c->native, stream);
  if (c->rank != root) return ncclRecv(buf, bytes, ncclUint8, root, c->native, stream);
  ncclResult_t rc = ncclGroupStart(), ended;
  for (int r = 0; !rc && r < c->ranks; r++) {
    if (r != root) rc = ncclSend(buf, bytes, ncclUint8, r, c->native, stream);
    if (rc == ncclInProgress) rc = ncclSuccess;
  }
  ended = ncclGroupEnd();
  return rc ? rc : ended;
}

static int nccl_broadcast(sp_ctx *ctx, void *comm, void *buf, size_t bytes, int root) {
  nccl_comm *c = comm;
  int rc = comm_check_broadcast(ctx, c->ranks, buf, bytes, root);
  if (rc) return refused(c, rc);
  if ((rc = enter(ctx, c))) return rc;
  return leave(ctx, c, bytes ? from_one(c, buf, bytes, root, ctx->stream) : ncclSuccess, "broadcast");
}

static int nccl_poll(sp_ctx *ctx, void *comm) {
  nccl_comm *c = comm;
  int rc = enter(ctx, c);
  if (rc) return rc;
  ncclResult_t state = state_in_nccl(c);
  if (state != ncclSuccess && state != ncclInProgress) rc = failed(ctx, c, state, "poll");
  pthread_mutex_unlock(&c->lock);
  return rc;
}

/* NCCL's abort crashes now and then where it cuts a call short that has only begun (2.28, beside other work on the
 * GPUs: 5 of 91 tries). So a call has a moment to be on its way, or to wait for the ranks that are not there. */
static void calm_down(ncclComm_t native) {
  const struct timespec nap = {.tv_nsec = NAP_NS};
  ncclResult_t state = ncclInProgress;
  for (double begun = now(); now() - begun < CALM_SECONDS;) {
    if (ncclCommGetAsyncError(native, &state) || state != ncclInProgress) return;
    nanosleep(&nap, NULL);
  }
}

static void *end(void *native) {
  calm_down(native);
  ncclCommAbort(native);
  return NULL;
}

/* NCCL's abort first ends what is in flight, then waits until every graph that has captured a call is destroyed, which
 * is for the thread to do that has been waiting: so it is on a thread of its own. */
static void nccl_abort(void *comm) {
  nccl_comm *c = comm;
  pthread_mutex_lock(&c->lock);
  ncclComm_t native = c->native;
  c->native = NULL;
  if (native) c->ends = pthread_create(&c->ending, NULL, end, native) == 0;
  bool here = native && !c->ends;
  pthread_mutex_unlock(&c->lock);
  if (here) end(native);
}

/* No graph has calls of it any more. False: NCCL is still at work.
 * On four H200s its abort took 2.6 s where rank 0 had died. */
static bool await_end(nccl_comm *c) {
  struct timespec until;
  pthread_mutex_lock(&c->lock);
  bool ends = c->ends;
  c->ends = false;
  pthread_mutex_unlock(&c->lock);
  if (!ends) return !c->left;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (until.tv_nsec + ABORT_NS) / 1000000000;
  until.tv_nsec = (until.tv_nsec + ABORT_NS) % 1000000000;
  c->left = pthread_clockjoin_np(c->ending, NULL, CLOCK_MONOTONIC, &until) != 0;
  if (c->left) pthread_detach(c->ending);
  return !c->left;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int register_window(sp_ctx *ctx, nccl_comm *c, nccl_block *b) {
#if HAVE_WINDOWS
  int rc = c->windows ? enter(ctx, c) : SP_OK;
  if (rc || !c->windows) return rc;
  return leave(ctx, c, ncclCommWindowRegister(c->native, b->ptr, b->bytes, &b->window, NCCL_WIN_COLL_SYMMETRIC),
               "alloc");
#else
  (void)ctx, (void)c, (void)b;
  return SP_OK;
#endif
}

static int take(sp_ctx *ctx, const nccl_comm *c, nccl_block *b, size_t bytes) {
  size_t free_bytes = 0, all;
  void *p = NULL;
  bool fits = bytes < SIZE_MAX / 2;
  if (fits && (c->windows ? ncclMemAlloc(&p, bytes) == ncclSuccess : cudaMalloc(&p, bytes) == cudaSuccess)) {
    b->ptr = p;
    b->bytes = bytes;
    return SP_OK;
  }
  cudaMemGetInfo(&free_bytes, &all);
  (void)cudaGetLastError();
  return ctx->host->fail(ctx, SP_E_NOMEM, "no memory of %zu bytes on the GPU, %zu are free", bytes, free_bytes);
}

static int nccl_alloc(sp_ctx *ctx, void *comm, size_t bytes, void **ptr) {
  nccl_comm *c = comm;
  size_t whole = bytes < SIZE_MAX / 2 ? (bytes / BLOCK + (bytes % BLOCK || !bytes)) * BLOCK : bytes;
  int rc = nccl_poll(ctx, c);
  if (rc) return rc;
  nccl_block *b = calloc(1, sizeof *b);
  if (!b) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for an allocation's record");
  if ((rc = take(ctx, c, b, whole))) return free(b), rc;
  b->next = c->blocks;
  c->blocks = b;
  if ((rc = register_window(ctx, c, b))) return rc; /* NCCL may be about to write it: close() frees it */
  *ptr = b->ptr;
  return SP_OK;
}

/* Deregisters the window of a communicator that is still there; a failure has no caller. */
static int ignore(sp_ctx *ctx, int status, const char *fmt, ...) {
  (void)ctx, (void)fmt;
  return status;
}
static const sp_host no_words = {.size = sizeof(sp_host), .abi = SP_ABI, .fail = ignore};

static ncclResult_t deregister(const nccl_comm *c, const nccl_block *b) {
#if HAVE_WINDOWS
  return b->window ? ncclCommWindowDeregister(c->native, b->window) : ncclSuccess;
#else
  (void)c, (void)b;
  return ncclSuccess;
#endif
}

static void nccl_free(void *comm, void *ptr) {
  nccl_comm *c = comm;
  nccl_block **at = &c->blocks, *b;
  while (*at && (*at)->ptr != ptr) at = &(*at)->next;
  if (!(b = *at)) return;
  *at = b->next;
  sp_ctx ctx = {.size = sizeof ctx, .host = &no_words};
  if (enter(&ctx, c)) nccl_abort(c); /* it is at its end, and its windows with it */
  else leave(&ctx, c, deregister(c, b), "free");
  bool ended = await_end(c);
  if (ended && c->windows) ncclMemFree(b->ptr);
  else if (ended) cudaFree(b->ptr);
  free(b);
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

static void nccl_close(void *comm) {
  nccl_comm *c = comm;
  sp_ctx ctx = {.size = sizeof ctx, .host = &no_words};
  if (!enter(&ctx, c)) {
    bool quiet = settle(&ctx, c, ncclCommFinalize(c->native), CLOSE_SECONDS, "close") == SP_OK;
    if (quiet && c->native) ncclCommDestroy(c->native), c->native = NULL;
    pthread_mutex_unlock(&c->lock);
  }
  nccl_abort(c);
  while (c->blocks) nccl_free(c, c->blocks->ptr);
  if (!await_end(c)) return;
  pthread_mutex_destroy(&c->lock);
  free(c);
}

typedef struct nccl_note {
  ncclUniqueId id;
  int32_t status, windows;
} nccl_note;

/* Rank 0's id for all. */
static int share_id(sp_ctx *ctx, const sp_comm_boot *boot, nccl_note *all, ncclUniqueId *id) {
  nccl_note mine = {.status = SP_OK};
  ncclResult_t rc = boot->rank ? ncclSuccess : ncclGetUniqueId(&mine.id);
  if (rc)
    mine.status = ctx->host->fail(ctx, SP_E_DEVICE, "NCCL: %s: %s", ncclGetErrorString(rc), ncclGetLastError(NULL));
  int status = boot->exchange(boot, &mine, sizeof mine, all);
  if (status || mine.status) return status ? status : mine.status;
  if (all[0].status) return ctx->host->fail(ctx, all[0].status, "rank 0 cannot start NCCL, see what it says");
  *id = all[0].id;
  return SP_OK;
}

/* Waits for all ranks. */
static int connect_all(sp_ctx *ctx, nccl_comm *c, ncclUniqueId id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  pthread_mutex_lock(&c->lock);
  ncclResult_t rc = ncclCommInitRankConfig(&c->made, c->ranks, id, c->rank, &config);
  c->native = c->made;
  int status = settle(ctx, c, rc, OPEN_SECONDS, "open");
  pthread_mutex_unlock(&c->lock);
  return status;
}

/* Where NCCL has none, of several hosts or with its NCCL_WIN_ENABLE=0, it registers memory all the same, for which see
 * from_one(): then blocks are plain memory, on all ranks. NCCL has read its files of variables by now. */
static int agree_windows(sp_ctx *ctx, const sp_comm_boot *boot, nccl_comm *c, nccl_note *all) {
  const char *enable = getenv("NCCL_WIN_ENABLE");
  nccl_note mine = {.windows = HAVE_WINDOWS && boot->local_ranks == boot->ranks};
  if (enable && *enable && strtol(enable, NULL, 0) == 0) mine.windows = 0;
  int status = boot->exchange(boot, &mine, sizeof mine, all);
  if (status) return ctx->host->fail(ctx, status, "the ranks have not agreed on windows");
  c->windows = true;
  for (int r = 0; r < c->ranks; r++) c->windows = c->windows && all[r].windows;
  return SP_OK;
}

static int make(sp_ctx *ctx, const sp_comm_boot *boot, nccl_comm **c, nccl_note **all) {
  *all = calloc((size_t)boot->ranks, sizeof **all);
  *c = calloc(1, sizeof **c);
  if (!*c || !*all) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %d ranks", boot->ranks);
  (*c)->rank = boot->rank;
  (*c)->ranks = boot->ranks;
  pthread_mutex_init(&(*c)->lock, NULL);
  return SP_OK;
}

/* NCCL's abort crashes where it has registered memory for sends and receives: it asks a proxy to forget it, over a
 * socket that it has freed before (2.28.3, and that of PyTorch 2.11). These are read once,
 * by the first call of NCCL. */
static void register_nothing(void) {
  setenv("NCCL_LOCAL_REGISTER", "0", 0);
  setenv("NCCL_GRAPH_REGISTER", "0", 0);
}

static int nccl_open(sp_ctx *ctx, const sp_comm_boot *boot, void *dev, void **comm) {
  nccl_comm *c = NULL;
  nccl_note *all = NULL;
  ncclUniqueId id;
  (void)dev;
  int rc = comm_check_boot(ctx, boot, SP_COMM_RANKS_MAX);
  if (rc) return rc;
  register_nothing();
  rc = comm_agree(ctx, boot, make(ctx, boot, &c, &all));
  if (!rc) rc = share_id(ctx, boot, all, &id);
  if (!rc) rc = comm_agree(ctx, boot, connect_all(ctx, c, id));
  if (!rc) rc = agree_windows(ctx, boot, c, all);
  free(all);
  if (!rc) *comm = c;
  else if (c) nccl_abort(c), nccl_close(c);
  return rc;
}

static const sp_comm_type nccl = {.size = sizeof(sp_comm_type),
                                  .flags = SP_COMM_CAPTURABLE,
                                  .name = "nccl",
                                  .device = "cuda",
                                  .doc = "Between NVIDIA GPUs, of one host or of several",
                                  .open = nccl_open,
                                  .close = nccl_close,
                                  .abort = nccl_abort,
                                  .alloc = nccl_alloc,
                                  .free = nccl_free,
                                  .all_to_all = nccl_all_to_all,
                                  .all_gather = nccl_all_gather,
                                  .broadcast = nccl_broadcast,
                                  .poll = nccl_poll,
                                  .all_gather_list = nccl_all_gather_list};
static const sp_comm_type *const comms[] = {&nccl, NULL};
SP_PLUGIN_ALL("comm_nccl", "Ranks on NVIDIA GPUs", NULL, NULL, NULL, comms);
