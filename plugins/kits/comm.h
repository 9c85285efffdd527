/* SPDX-License-Identifier: MIT
 * comm.h - what a communicator checks, whatever it moves bytes with. */
#ifndef SP_PLUGINS_COMM_H
#define SP_PLUGINS_COMM_H

#include <stdbool.h>
#include <stdlib.h>

#include <spcore/comm.h>

static inline int comm_check_boot(sp_ctx *ctx, const sp_comm_boot *b, int most) {
  if (b->ranks < 1 || b->rank < 0 || b->rank >= b->ranks)
    return ctx->host->fail(ctx, SP_E_INVALID, "there is no rank %d of %d", b->rank, b->ranks);
  if (b->ranks > most)
    return ctx->host->fail(ctx, SP_E_RANGE, "%d ranks are more than the %d of this communicator", b->ranks, most);
  if (!b->job || !*b->job) return ctx->host->fail(ctx, SP_E_INVALID, "the job has no name");
  return SP_OK;
}

/* Whether all ranks got so far: SP_OK, or this rank's status, or the first failure of another. */
static inline int comm_agree(sp_ctx *ctx, const sp_comm_boot *b, int status) {
  int32_t mine = status, all[SP_COMM_RANKS_MAX];
  int rc = b->exchange(b, &mine, sizeof mine, all);
  if (rc || status) return rc ? rc : status;
  for (int r = 0; r < b->ranks; r++)
    if (all[r]) return ctx->host->fail(ctx, all[r], "rank %d cannot open it, see what it says", r);
  return SP_OK;
}

/* alloc() where the device is the cpu: malloc's. */
static inline int comm_take(sp_ctx *ctx, size_t bytes, void **ptr) {
  if (bytes > SIZE_MAX / 2 || posix_memalign(ptr, 256, bytes ? bytes : 1))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory of %zu bytes", bytes);
  return SP_OK;
}

static inline bool comm_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return x < y ? y - x < a_bytes : x - y < b_bytes;
}

/* dst of ranks * each bytes. */
static inline int comm_check_size(sp_ctx *ctx, int ranks, const void *dst, const void *src, size_t each) {
  if (each && (!dst || !src)) return ctx->host->fail(ctx, SP_E_INVALID, "%zu bytes at NULL", each);
  if (each > SIZE_MAX / 2 / (size_t)ranks)
    return ctx->host->fail(ctx, SP_E_INVALID, "%zu bytes for each of %d ranks are too many", each, ranks);
  return SP_OK;
}

static inline int comm_check_to_all(sp_ctx *ctx, int ranks, const void *dst, const void *src, size_t each) {
  int rc = comm_check_size(ctx, ranks, dst, src, each);
  if (rc) return rc;
  if (comm_overlap(dst, (size_t)ranks * each, src, (size_t)ranks * each))
    return ctx->host->fail(ctx, SP_E_INVALID, "all_to_all is not done in place: dst and src overlap");
  return SP_OK;
}

static inline int comm_check_gather(sp_ctx *ctx, int rank, int ranks, const void *dst, const void *src, size_t each) {
  int rc = comm_check_size(ctx, ranks, dst, src, each);
  if (rc) return rc;
  bool in_place = src == (const char *)dst + (size_t)rank * each;
  if (!in_place && comm_overlap(dst, (size_t)ranks * each, src, each))
    return ctx->host->fail(ctx, SP_E_INVALID, "all_gather in place wants src at dst + rank * each: they overlap");
  return SP_OK;
}

static inline int comm_check_broadcast(sp_ctx *ctx, int ranks, const void *buf, size_t bytes, int root) {
  if (root < 0 || root >= ranks) return ctx->host->fail(ctx, SP_E_INVALID, "broadcast from rank %d of %d", root, ranks);
  return comm_check_size(ctx, 1, buf, buf, bytes);
}

#endif
