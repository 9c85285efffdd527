/* SPDX-License-Identifier: MIT
 * mpi.c - communicator between processors of any hosts: MPI, of processes that mpirun or srun has started.
 *
 * Every call is a non-blocking one that is asked again and again whether it is done, since one that blocks cannot be
 * ended from outside. What abort() leaves in flight stays MPI's for good: nobody asks for it any more, so nothing
 * moves, and such a process does not finalize MPI, which would wait for the others. */
#include <mpi.h>

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spcore/plugin.h>

#include "../../kits/comm.h"

#define PIECE ((size_t)2 << 20) /* of one call of MPI, which counts in int; also what it may have to copy */
#define SHORT_TURNS 200         /* before it naps */
#define NAP_NS 20000

enum { GOOD, ABORTED = -1, REFUSED = -2 }; /* above: an error of MPI */

typedef struct mpi_comm {
  int rank, ranks;
  MPI_Comm native;
  atomic_int state;
} mpi_comm;

static atomic_int broken; /* some communicator of this process has ended badly */

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static int mpi_failed(sp_ctx *ctx, int code, const char *what) {
  char words[MPI_MAX_ERROR_STRING];
  int n = 0;
  if (MPI_Error_string(code, words, &n)) n = 0;
  return ctx->host->fail(ctx, SP_E_IO, "%s: %.*s", what, n, words);
}

static int mpi_poll(sp_ctx *ctx, void *comm) {
  mpi_comm *c = comm;
  int state = atomic_load(&c->state);
  switch (state) {
    case GOOD: return SP_OK;
    case ABORTED: return ctx->host->fail(ctx, SP_E_CANCELLED, "this rank has aborted the communicator");
    case REFUSED: return ctx->host->fail(ctx, SP_E_STATE, "an earlier call had wrong arguments");
    default: return mpi_failed(ctx, state, "MPI");
  }
}

/* The first failure counts. */
static void fails_with(mpi_comm *c, int state) {
  int good = GOOD;
  atomic_compare_exchange_strong(&c->state, &good, state);
  atomic_store(&broken, 1);
}

static void mpi_abort(void *comm) { fails_with(comm, ABORTED); }

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static int until_done(sp_ctx *ctx, mpi_comm *c, MPI_Request *request) {
  const struct timespec nap = {.tv_nsec = NAP_NS};
  for (int turns = 0;; turns++) {
    int done = 0, code = MPI_Test(request, &done, MPI_STATUS_IGNORE), rc;
    if (code) fails_with(c, code);
    if ((rc = mpi_poll(ctx, c)) || done) return rc;
    if (turns < SHORT_TURNS) sched_yield();
    else nanosleep(&nap, NULL);
  }
}

/* n bytes of which the next begin `step` bytes later. */
static int piece_type(size_t n, size_t step, MPI_Datatype *type) {
  MPI_Datatype bytes;
  int code = MPI_Type_contiguous((int)n, MPI_BYTE, &bytes);
  if (code) return code;
  code = MPI_Type_create_resized(bytes, 0, (MPI_Aint)step, type);
  if (!code) code = MPI_Type_commit(type);
  MPI_Type_free(&bytes);
  return code;
}

typedef int (*start_fn)(const mpi_comm *c, char *dst, const char *src, int n, MPI_Datatype type, MPI_Request *request);

static int start_to_all(const mpi_comm *c, char *dst, const char *src, int n, MPI_Datatype type, MPI_Request *request) {
  (void)n;
  return MPI_Ialltoall(src, 1, type, dst, 1, type, c->native, request);
}

/* In place every piece lies where it belongs already: src is not told. */
static int start_gather(const mpi_comm *c, char *dst, const char *src, int n, MPI_Datatype type, MPI_Request *request) {
  return MPI_Iallgather(src ? src : MPI_IN_PLACE, n, MPI_BYTE, dst, 1, type, c->native, request);
}

/* Piece by piece, so that no count passes an int. */
static int swap(sp_ctx *ctx, mpi_comm *c, start_fn start, char *dst, const char *src, size_t each) {
  int rc = mpi_poll(ctx, c);
  for (size_t at = 0; !rc && at < each; at += PIECE) {
    size_t n = each - at < PIECE ? each - at : PIECE;
    MPI_Datatype type;
    MPI_Request request;
    int code = piece_type(n, each, &type);
    if (!code) {
      code = start(c, dst + at, src ? src + at : NULL, (int)n, type, &request);
      MPI_Type_free(&type); /* lives on while it is in use */
    }
    if (code) fails_with(c, code);
    rc = code ? mpi_poll(ctx, c) : until_done(ctx, c, &request);
  }
  return rc;
}

static int refused(mpi_comm *c, int rc) {
  fails_with(c, REFUSED);
  return rc;
}

static int mpi_all_to_all(sp_ctx *ctx, void *comm, void *dst, const void *src, size_t each) {
  mpi_comm *c = comm;
  int rc = comm_check_to_all(ctx, c->ranks, dst, src, each);
  return rc ? refused(c, rc) : swap(ctx, c, start_to_all, dst, src, each);
}

static int mpi_all_gather(sp_ctx *ctx, void *comm, void *dst, const void *src, size_t each) {
  mpi_comm *c = comm;
  int rc = comm_check_gather(ctx, c->rank, c->ranks, dst, src, each);
  if (rc) return refused(c, rc);
  return swap(ctx, c, start_gather, dst, src == (char *)dst + (size_t)c->rank * each ? NULL : src, each);
}

static int mpi_broadcast(sp_ctx *ctx, void *comm, void *buf, size_t bytes, int root) {
  mpi_comm *c = comm;
  int rc = comm_check_broadcast(ctx, c->ranks, buf, bytes, root);
  if (rc) return refused(c, rc);
  rc = mpi_poll(ctx, c);
  for (size_t at = 0; !rc && at < bytes; at += PIECE) {
    size_t n = bytes - at < PIECE ? bytes - at : PIECE;
    MPI_Request request;
    int code = MPI_Ibcast((char *)buf + at, (int)n, MPI_BYTE, root, c->native, &request);
    if (code) fails_with(c, code);
    rc = code ? mpi_poll(ctx, c) : until_done(ctx, c, &request);
  }
  return rc;
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

/* As the process exits. Where it fails, or another rank has, that must not wait for all. */
static void finalize(int status, void *arg) {
  int done = 0;
  (void)arg;
  if (status || atomic_load(&broken)) return;
  if (!MPI_Finalized(&done) && !done) MPI_Finalize();
}

/* MPI opens modules of its own, which look for its symbols among the global ones. */
static void make_global(void) {
  Dl_info info;
  union {
    int (*function)(int *, char ***, int, int *);
    void *address;
  } at = {MPI_Init_thread};
  if (dladdr(at.address, &info)) dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static int start_mpi(sp_ctx *ctx) {
  int there = 0, threads = 0, code = MPI_Initialized(&there);
  if (code) return mpi_failed(ctx, code, "MPI_Initialized");
  if (there) {
    code = MPI_Query_thread(&threads);
  } else {
    make_global();
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &threads);
    if (!code && on_exit(finalize, NULL)) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to end MPI later");
  }
  if (code) return mpi_failed(ctx, code, "MPI_Init_thread");
  if (threads < MPI_THREAD_MULTIPLE)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "MPI was started, or built, without MPI_THREAD_MULTIPLE");
  return SP_OK;
}

static int check_world(sp_ctx *ctx, const sp_comm_boot *boot) {
  int size = 0, code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (!code) code = MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (code) return mpi_failed(ctx, code, "MPI_COMM_WORLD");
  if (size == boot->ranks) return SP_OK;
  return ctx->host->fail(ctx, SP_E_STATE, "MPI has %d rank%s, the job %d: start it with mpirun -np %d", size,
                         size == 1 ? "" : "s", boot->ranks, boot->ranks);
}

static int make(sp_ctx *ctx, const sp_comm_boot *boot, mpi_comm **c) {
  *c = calloc(1, sizeof **c);
  if (!*c) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for a communicator");
  (*c)->rank = boot->rank;
  (*c)->ranks = boot->ranks;
  (*c)->native = MPI_COMM_NULL;
  int rc = start_mpi(ctx);
  return rc ? rc : check_world(ctx, boot);
}

/* The job's ranks, whatever numbers MPI has given them. */
static int connect_all(sp_ctx *ctx, mpi_comm *c) {
  int code = MPI_Comm_split(MPI_COMM_WORLD, 0, c->rank, &c->native);
  if (!code) code = MPI_Comm_set_errhandler(c->native, MPI_ERRORS_RETURN);
  return code ? mpi_failed(ctx, code, "MPI_Comm_split") : SP_OK;
}

static void mpi_close(void *comm) {
  mpi_comm *c = comm;
  if (c && c->native != MPI_COMM_NULL && atomic_load(&c->state) == GOOD) MPI_Comm_free(&c->native);
  free(c);
}

static int mpi_open(sp_ctx *ctx, const sp_comm_boot *boot, void *dev, void **comm) {
  mpi_comm *c = NULL;
  (void)dev;
  int rc = comm_check_boot(ctx, boot, SP_COMM_RANKS_MAX);
  if (rc) return rc;
  rc = comm_agree(ctx, boot, make(ctx, boot, &c));
  if (!rc) rc = comm_agree(ctx, boot, connect_all(ctx, c));
  if (rc) mpi_close(c);
  else *comm = c;
  return rc;
}

static int mpi_alloc(sp_ctx *ctx, void *comm, size_t bytes, void **ptr) {
  int rc = mpi_poll(ctx, comm);
  return rc ? rc : comm_take(ctx, bytes, ptr);
}

static void mpi_free(void *comm, void *ptr) {
  (void)comm;
  free(ptr);
}

static const sp_comm_type mpi = {.size = sizeof(sp_comm_type),
                                 .name = "mpi",
                                 .device = "cpu",
                                 .doc =
                                     "Between ranks on the processors of any hosts, which mpirun or srun has started",
                                 .open = mpi_open,
                                 .close = mpi_close,
                                 .abort = mpi_abort,
                                 .alloc = mpi_alloc,
                                 .free = mpi_free,
                                 .all_to_all = mpi_all_to_all,
                                 .all_gather = mpi_all_gather,
                                 .broadcast = mpi_broadcast,
                                 .poll = mpi_poll};
static const sp_comm_type *const comms[] = {&mpi, NULL};
SP_PLUGIN_ALL("comm_mpi", "Ranks on any hosts", NULL, NULL, NULL, comms);
