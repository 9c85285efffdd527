/* SPDX-License-Identifier: MIT
 * pool.c - pinned memory that is reused instead of freed. */
#include "device/pool.h"

#include "base/ctx.h"
#include "base/util.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST 4096 /* bytes; pinning works on pages */

typedef struct block {
  struct block *next;
  void *ptr;
  size_t size;
  bool in_use;
} block;

struct sp_pool {
  const sp_device_type *type;
  void *dev;
  size_t cap, in_use, kept;
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

static void use(sp_pool *pool, block *b, void **ptr) {
  b->in_use = true;
  pool->kept -= b->size;
  pool->in_use += b->size;
  *ptr = b->ptr;
}

/* The smallest kept block of `size` or more, up to `most`; NULL: none. */
static block *find(sp_pool *pool, size_t size, size_t most) {
  block *found = NULL;
  for (block *b = pool->blocks; b; b = b->next)
    if (!b->in_use && b->size >= size && b->size <= most && (!found || b->size < found->size)) found = b;
  return found;
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
  pool->kept += size;
  use(pool, b, ptr);
  return SP_OK;
}

/* Frees kept blocks, none of them large enough, until `size` more bytes fit. */
static void make_room(sp_pool *pool, size_t size) {
  for (block **at = &pool->blocks; *at && pool->in_use + pool->kept + size > pool->cap;) {
    block *b = *at;
    if (b->in_use) {
      at = &b->next;
      continue;
    }
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
  size_t size = sp_pool_block(bytes);
  if (size < bytes || (pool->cap && size > pool->cap - pool->in_use))
    return sp_fail(err, SP_E_NOMEM,
                   "pinned memory is exhausted: %zu bytes asked for (a block of %zu), %zu in use, at most %zu allowed; "
                   "raise %s",
                   bytes, size, pool->in_use, pool->cap, pool->option);
  bool at_cap = pool->cap && size > pool->cap - pool->in_use - pool->kept;
  block *b = find(pool, size, size);
  if (!b && at_cap)
    b = find(pool, size, pool->cap - pool->in_use); /* before anything is freed, which may stop the device */
  if (b) {
    use(pool, b, ptr);
    return SP_OK;
  }
  if (at_cap) make_room(pool, size);
  return allocate(pool, sp_ctx_for(&holder, "pinned memory", err), size, ptr);
}

int sp_pool_put(sp_pool *pool, void *ptr, sp_err *err) {
  block *b = pool->blocks;
  while (b && b->ptr != ptr) b = b->next;
  if (!b || !b->in_use) return sp_fail(err, SP_E_INVALID, "memory given back that is no block of the pool in use");
  b->in_use = false;
  pool->in_use -= b->size;
  pool->kept += b->size;
  return SP_OK;
}
