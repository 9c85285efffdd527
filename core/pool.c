/* SPDX-License-Identifier: MIT
 * pool.c - pinned memory that is reused behind an event instead of freed. */
#include "pool.h"

#include "stage.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST 4096 /* bytes; pinning works on pages */

typedef struct block {
  struct block *next;
  void *ptr;
  size_t size;
  void *event;        /* NULL until it was first given back behind a stream */
  bool in_use, armed; /* armed: reuse waits for the event */
} block;

struct sp_pool {
  const sp_device_type *type;
  void *dev;
  size_t cap, in_use, kept, allocs;
  char *option;
  block *blocks;
};

int sp_pool_new(sp_pool **out, const sp_device_type *type, void *dev, size_t cap, const char *option, sp_err *err) {
  sp_pool *pool = sp_calloc(1, sizeof *pool);
  if (!pool || !(pool->option = sp_strdup(option))) {
    free(pool);
    return sp_nomem(err, sizeof *pool, "a memory pool");
  }
  pool->type = type;
  pool->dev = dev;
  pool->cap = cap;
  *out = pool;
  return SP_OK;
}

static void release(sp_pool *pool, block *b) {
  if (b->event) pool->type->event_close(b->event);
  pool->type->free(pool->dev, SP_MEM_PINNED, b->ptr);
  free(b);
}

void sp_pool_free(sp_pool *pool) {
  if (!pool) return;
  while (pool->blocks) {
    block *b = pool->blocks;
    pool->blocks = b->next;
    release(pool, b);
  }
  free(pool->option);
  free(pool);
}

static int use(sp_pool *pool, block *b, void **ptr) {
  b->in_use = true;
  pool->kept -= b->size;
  pool->in_use += b->size;
  *ptr = b->ptr;
  return SP_OK;
}

/* The smallest kept block of `size` or more, up to `most`; with `complete` only one whose event is. */
static int find(sp_pool *pool, sp_ctx *ctx, size_t size, size_t most, bool complete, block **found) {
  *found = NULL;
  for (block *b = pool->blocks; b; b = b->next) {
    int done = 1;
    if (b->in_use || b->size < size || b->size > most || (*found && (*found)->size <= b->size)) continue;
    if (complete && b->armed) {
      int status = pool->type->event_query(ctx, b->event, &done);
      if (status) return status;
    }
    if (done) *found = b;
  }
  return SP_OK;
}

static int allocate(sp_pool *pool, sp_ctx *ctx, size_t size, void **ptr) {
  block *b = sp_calloc(1, sizeof *b);
  if (!b) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a block's record");
  int status = pool->type->alloc(ctx, pool->dev, SP_MEM_PINNED, size, &b->ptr);
  if (status) {
    free(b);
    return status;
  }
  b->size = size;
  b->next = pool->blocks;
  pool->blocks = b;
  pool->allocs++;
  pool->kept += size;
  return use(pool, b, ptr);
}

/* Frees kept blocks, none of them large enough, until `size` more bytes fit. What a failed stream left is as free as
 * any other: its operations were dropped, so the event's failure is for those who wait for the stream. */
static void make_room(sp_pool *pool, sp_ctx *ctx, size_t size) {
  for (block **at = &pool->blocks; *at && pool->in_use + pool->kept + size > pool->cap;) {
    block *b = *at;
    if (b->in_use) {
      at = &b->next;
      continue;
    }
    if (b->armed) pool->type->event_sync(ctx, b->event);
    *at = b->next;
    pool->kept -= b->size;
    release(pool, b);
  }
}

size_t sp_pool_block(size_t bytes) {
  size_t size = SMALLEST;
  while (size < bytes && size <= SIZE_MAX / 2) size *= 2;
  return size;
}

int sp_pool_get(sp_pool *pool, size_t bytes, void **ptr, sp_err *err) {
  sp_ctx_holder holder;
  sp_err ignored = {0};
  sp_ctx *ctx = sp_ctx_for(&holder, "pinned memory", err);
  size_t size = sp_pool_block(bytes);
  block *b;
  if (size < bytes || (pool->cap && size > pool->cap - pool->in_use))
    return sp_fail(err, SP_E_NOMEM,
                   "pinned memory is exhausted: %zu bytes asked for (a block of %zu), %zu in use, at most %zu allowed; "
                   "raise %s",
                   bytes, size, pool->in_use, pool->cap, pool->option);
  int status = find(pool, ctx, size, size, true, &b);
  if (status) return status;
  if (b) return use(pool, b, ptr);
  if (!pool->cap || size <= pool->cap - pool->in_use - pool->kept) return allocate(pool, ctx, size, ptr);

  /* At the cap: a larger block, or one still being read, before anything is freed, which may stop the device. */
  size_t most = pool->cap - pool->in_use;
  status = find(pool, ctx, size, most, true, &b);
  if (!status && !b) status = find(pool, ctx, size, most, false, &b);
  if (status) return status;
  if (b) {
    if (b->armed) pool->type->event_sync(sp_ctx_for(&holder, "pinned memory", &ignored), b->event);
    return use(pool, b, ptr);
  }
  make_room(pool, sp_ctx_for(&holder, "pinned memory", &ignored), size);
  return allocate(pool, sp_ctx_for(&holder, "pinned memory", err), size, ptr);
}

int sp_pool_put(sp_pool *pool, void *ptr, void *stream, sp_err *err) {
  sp_ctx_holder holder;
  sp_ctx *ctx = sp_ctx_for(&holder, "pinned memory", err);
  block *b = pool->blocks;
  while (b && b->ptr != ptr) b = b->next;
  if (!b || !b->in_use) return sp_fail(err, SP_E_INVALID, "memory given back that is no block of the pool in use");
  if (stream) {
    int status = b->event ? SP_OK : pool->type->event_open(ctx, pool->dev, 0, &b->event);
    if (!status) status = pool->type->event_record(ctx, b->event, stream);
    if (status) return status;
  }
  b->armed = stream != NULL;
  b->in_use = false;
  pool->in_use -= b->size;
  pool->kept += b->size;
  return SP_OK;
}

void sp_pool_stats(const sp_pool *pool, size_t *in_use, size_t *kept, size_t *allocs) {
  if (in_use) *in_use = pool->in_use;
  if (kept) *kept = pool->kept;
  if (allocs) *allocs = pool->allocs;
}
