/* SPDX-License-Identifier: MIT
 * ranks.h - the processes of one job: which one this is, small data between them, and who is guilty when one is lost.
 *
 * A star of TCP connections to rank 0. A thread of each process, the watcher, tells the others every second that it
 * lives and what it is at; the first failure becomes one line that is the same on every rank. NULL in place of a
 * sp_ranks is a job of one rank, of which every call is true at once. */
#ifndef SP_CORE_RANKS_H
#define SP_CORE_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SP_RANKS_MAX 4096
#define SP_RANKS_NO_STEP UINT64_MAX

typedef struct sp_ranks sp_ranks;

typedef struct sp_rank_opts {
  int rank, ranks, local_rank, local_ranks; /* local: of the processes on this host */
  char address[256];                        /* where rank 0 listens */
  int port;
  char job[64];       /* processes of another job come with another one */
  const char *origin; /* the variable that says how many ranks there are: "WORLD_SIZE"; "": none */
  double start;       /* seconds until all must be there */
  double silence;     /* seconds without a word, after which a rank is stopped, or its host gone */
  double timeout;     /* seconds in which no rank gets on while one waits, after which they are stalled */
  double grace;       /* seconds from a failure until `failed` is called again; 0: never; */
  double stuck;       /* the same, where a wait of the script for its device lasts so long, see sp_ranks_block() */
  int listener;       /* of rank 0: a socket that listens on `port` already; -1: none. It is closed */
  /* Called on the watcher's thread when the job has failed, but on the rank that has said so itself: for what must be
   * aborted. Once more, with `late`, where the ranks are still not closed after `grace` or `stuck`. May be NULL. */
  void (*failed)(void *arg, const sp_err *why, bool late);
  void *arg;
} sp_rank_opts;

/* From the variables of torchrun, mpirun, PMI, PMIx and srun, in this order; docs/ranks.md names them. None:
 * one rank. */
int sp_ranks_find(sp_rank_opts *opts, sp_err *err);

/* Connects all ranks; returns when they are there. One rank: *r is NULL. */
int sp_ranks_open(sp_ranks **r, const sp_rank_opts *opts, sp_err *err);
/* Waits until all ranks do this; from then on a process may end. The failure of the job, if there was one. */
int sp_ranks_close(sp_ranks *r, sp_err *err);
const sp_rank_opts *sp_ranks_opts(const sp_ranks *r);

/* ---- all ranks call these in the same order, each on one thread at a time ---- */
/* all[rank][bytes] is what each gave; `mine` may be its place in there. Of 0 bytes: waits until all are here;
 * both NULL. */
int sp_ranks_exchange(sp_ranks *r, const void *mine, size_t bytes, void *all, sp_err *err);
int sp_ranks_broadcast(sp_ranks *r, void *buf, size_t bytes, sp_err *err); /* rank 0's */
/* What must be the same everywhere. The error, the same on all ranks, names the first that differs. */
typedef struct sp_rank_text {
  const char *name, *value;
} sp_rank_text;
int sp_ranks_same(sp_ranks *r, const sp_rank_text *texts, size_t n, sp_err *err);

/* ---- any thread ---- */
/* What this rank is at from now on, and what of the others it waits for, or NULL: some nanoseconds, no lock. Of two
 * threads that say so at once one is heard. Of the texts 63 bytes are copied. */
void sp_ranks_at(sp_ranks *r, uint64_t step, const char *stage, const char *waiting_for);
/* The same at the step where it is, of what is no stage's: "the save of weights.safetensors". */
void sp_ranks_busy(sp_ranks *r, const char *with);
/* A thread of this rank begins to wait for others, or has waited; calls between ranks say so themselves. And one begins
 * with what others need, or is through: meanwhile the rank does not wait, whatever other threads do. */
void sp_ranks_wait(sp_ranks *r, bool begins);
void sp_ranks_work(sp_ranks *r, bool begins);
double sp_ranks_waited(sp_ranks *r); /* seconds in which it waited */
/* The thread of the script begins to wait for its device, or has waited. What is added below to be aborted ends the
 * device's own waits for other ranks, but not all devices let it:
 * one that does not come back is waiting for a rank that is gone. A few ns. */
void sp_ranks_block(sp_ranks *r, bool begins);
/* This rank cannot go on. Returns when the others know it, or a second has passed. The first failure of a job is the
 * one that counts. */
void sp_ranks_fail(sp_ranks *r, const sp_err *why);
/* The job cannot go on because of `rank`, this one or another, for reasons that all may find at once: as sp_ranks_fail,
 * but the words stay as they are. *err becomes the failure of the job. */
int sp_ranks_blame(sp_ranks *r, int rank, const sp_err *why, sp_err *err);
int sp_ranks_failed(sp_ranks *r, sp_err *err); /* SP_OK, or the failure of the job */
int sp_ranks_guilty(sp_ranks *r);              /* the rank whose failure it is; -1: there is none */
/* The same, but waits for it, `seconds` at most. */
int sp_ranks_await_failure(sp_ranks *r, double seconds, sp_err *err);
/* What waits for other ranks by means of its own: it is ended, once, when the job fails, by the watcher's thread or,
 * where the job has failed already, by the caller's. Every rank does, also the one that has said it failed.
 * `a` is the caller's. */
typedef struct sp_rank_abort {
  void (*abort)(void *arg);
  void *arg;
  struct sp_rank_abort *next;
} sp_rank_abort;
void sp_ranks_add_abort(sp_ranks *r, sp_rank_abort *a);
void sp_ranks_remove_abort(sp_ranks *r, sp_rank_abort *a); /* it is not running any more, and will not */

#endif
