/* SPDX-License-Identifier: MIT
 *
 * spcore/comm.h - how a communicator is written: what moves bytes between the ranks of a job. It adds nothing: sums are
 * the host's, in an order of its own.
 *
 * A rank is one of `ranks` processes that run the same script, each with one device; of a simulated job the ranks may
 * be threads of one process, see SP_COMM_THREADS. Rules that the conformance suite (tests/comm) states for every
 * communicator:
 *  - A collective call is made by all ranks, with equal sizes and root, in the same order on one communicator. One
 *    thread of a rank is in such a call at a time. Who breaks this, the host finds out before it runs anything; a
 *    communicator that can tell fails with SP_E_INVALID, of others the calls may wait until abort().
 *  - A call may return on one rank while others have not begun theirs, as far as its bytes allow: none is a barrier.
 *  - Sizes are bytes. 0 is allowed: nothing is moved, pointers may be NULL, and all ranks make the call, though it may
 *    return without waiting for them.
 *  - Of a GPU the device is the calling thread's current one, but in abort() and poll().
 *  - Any size works in memory that open() and alloc() have taken: a call allocates nothing of the size of its data.
 *  - On "cpu" a call runs on a lane's thread and returns when the bytes are there. On other devices it only enqueues on
 *    ctx->stream, as a stage does. There dst and src are device memory; on "cpu" any memory.
 *  - Memory from alloc() is the fast one, and the same everywhere or nowhere: if dst or src of a call lies in memory
 *    from alloc() on one rank, then on all, in that of the same call of alloc(), at the same distance from its begin.
 *  - A failure is final: after a call has failed so does every later one. What dst holds then is not defined.
 */
#ifndef SPCORE_COMM_H
#define SPCORE_COMM_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_COMM_RANKS_MAX 4096

/* Lent for open(). */
typedef struct sp_comm_boot {
  uint32_t size;
  int32_t rank, ranks;             /* rank is in 0..ranks - 1 */
  int32_t local_rank, local_ranks; /* the same among the ranks of this host */
  uint32_t reserved;
  const char *job; /* equal on all ranks, and of no other job on these hosts: not empty */
  void *impl;      /* the host's; leave it alone */

  /* Gives every rank what each has: `all` gets `bytes` bytes of rank 0, 1 ... Slow, of a few KiB at most. It is there
   * while open() is. On failure (a rank is gone) the host knows the words: hand the status on, without fail().
   * Collective. [the thread of open()] */
  int (*exchange)(const struct sp_comm_boot *boot, const void *mine, size_t bytes, void *all);
} sp_comm_boot;

enum {
  SP_COMM_CAPTURABLE = 1u << 0, /* calls may be captured into a graph, after one eager call of the kind and size */
  SP_COMM_THREADS = 1u << 1     /* ranks may be threads of one process, each with a communicator of its own */
};

/* One all_gather(). */
typedef struct sp_comm_gather {
  void *dst;
  const void *src;
  size_t each;
} sp_comm_gather;

typedef struct sp_comm_type {
  uint32_t size, flags;
  const char *name;   /* "nccl"; its file is comm_NAME.so */
  const char *device; /* whose memory it moves: "cuda" */
  const char *doc;    /* one sentence, no full stop */

  /* `dev` is what the device's open() gave; NULL on "cpu". Fails on all ranks if on one, but where a rank has died;
   * then nothing is kept, and close() is not called. Collective. [main & !running] */
  int (*open)(sp_ctx *, const sp_comm_boot *boot, void *dev, void **comm);

  /* Frees it, after its memory; no call is in flight, and no graph has one captured. It waits for no other rank, which
   * may still read what this one has sent. This function can't fail. [main & !running] */
  void (*close)(void *comm);

  /* What this rank has in flight on any thread, and what its streams wait for in it, ends within a second with
   * SP_E_CANCELLED or the failure of before, whatever other ranks do or have ceased to do; on a stream it ends without
   * words of its own, and poll() has them. Later calls, alloc() too, fail at once. Other ranks may see it or not. May
   * be called again. This function can't fail, and it may take a second. [any thread] */
  void (*abort)(void *comm);

  /* Memory of the device, aligned to 256 bytes at least, holding garbage. Equal bytes on all ranks; 0 gives a pointer,
   * too. Collective: where one rank has too little, the others may wait until abort(). [main & !running] */
  int (*alloc)(sp_ctx *, void *comm, size_t bytes, void **ptr);
  /* Also after abort(), when no graph has a captured call any more; what that is still at work on then stays the
   * process's until its end. Not collective; this function can't fail. [main & !running] */
  void (*free)(void *comm, void *ptr);

  /* Piece r of dst is piece `rank` of rank r's src; both have ranks * each bytes and do not overlap. [stream] */
  int (*all_to_all)(sp_ctx *, void *comm, void *dst, const void *src, size_t each);

  /* Piece r of dst is rank r's src, of `each` bytes. In place where src is dst + rank * each, which is the same on all
   * ranks; the own piece then holds what it holds all the time, and others may read it meanwhile. Else they do not
   * overlap. [stream] */
  int (*all_gather)(sp_ctx *, void *comm, void *dst, const void *src, size_t each);

  /* buf of all ranks gets what rank `root` has in it. [stream] */
  int (*broadcast)(sp_ctx *, void *comm, void *buf, size_t bytes, int root);

  /* SP_OK, or the communicator's failure, with its words. Waits for nothing. [any thread] */
  int (*poll)(sp_ctx *, void *comm);

  /* May be NULL. all_gather() of each of the n, in this order, for a communicator to which one call costs less than n;
   * no dst is part of another's. [stream] */
  int (*all_gather_list)(sp_ctx *, void *comm, const sp_comm_gather *list, size_t n);
} sp_comm_type;

#ifdef __cplusplus
}
#endif
#endif
