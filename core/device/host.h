/* SPDX-License-Identifier: MIT
 * host.h - what the built-in devices share: memory, description, operations and captured lists of them. */
#ifndef SP_CORE_DEVICE_HOST_H
#define SP_CORE_DEVICE_HOST_H

#include <spcore/device.h>

#include "base/util.h"

int sp_hostdev_count(sp_ctx *ctx, int *n);
int sp_hostdev_describe(sp_ctx *ctx, int index, sp_device_info *info);
int sp_hostdev_check_index(sp_ctx *ctx, int index);
int sp_hostdev_alloc(sp_ctx *ctx, void *dev, int kind, size_t bytes, void **ptr);
void sp_hostdev_free(void *dev, int kind, void *ptr);

enum { SP_HOSTOP_CALL, SP_HOSTOP_COPY, SP_HOSTOP_HASH, SP_HOSTOP_GRAPH };

typedef struct sp_hostgraph {
  size_t n, cap;
  struct sp_hostop *op;
} sp_hostgraph;

typedef struct sp_hostop {
  int kind;
  sp_op_fn fn;
  void *arg;
  void *dst; /* HASH: of a uint64_t */
  const void *src;
  size_t bytes;
  const sp_hostgraph *graph;
} sp_hostop;

int sp_hostop_run(const sp_hostop *op);
bool sp_hostgraph_add(sp_hostgraph *graph, const sp_hostop *op); /* false when out of memory */
void sp_hostgraph_free(sp_hostgraph *graph);

#endif
