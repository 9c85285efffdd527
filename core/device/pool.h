/* SPDX-License-Identifier: MIT
 * pool.h - pinned memory that is reused instead of freed. */
#ifndef SP_CORE_POOL_H
#define SP_CORE_POOL_H

#include <spcore/device.h>

#include <stdbool.h>

#include "base/err.h"

typedef struct sp_pool sp_pool;

/* cap: bytes in all, in use or kept; 0: no limit. `option` is what an exhausted pool's message names ("--pinned"). */
int sp_pool_new(sp_pool **pool, const sp_device_type *type, void *dev, size_t cap, const char *option, sp_err *err);
void sp_pool_free(sp_pool *pool);
size_t sp_pool_block(size_t bytes); /* what get() takes for so many bytes: the next power of two */
int sp_pool_get(sp_pool *pool, size_t bytes, void **ptr, sp_err *err);
/* Gives it back, to be used again at once: no stream may still read or write it. */
int sp_pool_put(sp_pool *pool, void *ptr, sp_err *err);

#endif
