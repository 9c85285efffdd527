/* SPDX-License-Identifier: MIT
 * calls.c - what a rank does with a communicator: its calls, on a stream of the device, and memory for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

/* With SP_TELL set, what a rank is about to do, which a hang does not say by itself. */
static void tell(const rank *k, const char *what, size_t bytes) {
  if (getenv("SP_TELL")) fprintf(stderr, "rank %d: %s %zu\n", k->r, what, bytes);
}

static int op_call(void *arg, void *native) {
  call *c = arg;
  const sp_comm_type *t = c->k->type;
  sp_ctx *ctx = sp_ctx_for(&c->holder, "comm", &c->err);
  ctx->stream = native;
  switch (c->kind) {
    case ALL_TO_ALL: c->status = t->all_to_all(ctx, c->k->comm, c->dst, c->src, c->bytes); break;
    case ALL_GATHER: c->status = t->all_gather(ctx, c->k->comm, c->dst, c->src, c->bytes); break;
    case ALL_GATHER_LIST: c->status = t->all_gather_list(ctx, c->k->comm, c->src, c->bytes); break;
    default: c->status = t->broadcast(ctx, c->k->comm, c->dst, c->bytes, c->root);
  }
  return SP_OK; /* the stream goes on: what has failed, c says */
}

void wait_for(rank *k) { WANT(k, k->device->stream_sync(ctx_of(k), k->stream) == SP_OK, "%s", k->err.msg); }

void enqueue(call *c) {
  rank *k = c->k;
  WANT(k, k->device->stream_submit(ctx_of(k), k->stream, op_call, c) == SP_OK, "%s", k->err.msg);
}

int make(rank *k, call *c, int kind, void *dst, const void *src, size_t bytes, int root) {
  static const char *const names[] = {"all_to_all", "all_gather", "broadcast", "all_gather_list"};
  tell(k, names[kind], bytes);
  *c = (call){.k = k, .kind = kind, .dst = dst, .src = src, .bytes = bytes, .root = root};
  enqueue(c);
  int rc = k->device->stream_sync(ctx_of(k), k->stream);
  if (!c->status && rc) c->status = rc, c->err = k->err;
  return c->status;
}

int try_open(rank *k) {
  void *dev = strcmp(k->type->device, "cpu") == 0 ? NULL : k->dev;
  return k->type->open(ctx_of(k), &k->boot, dev, &k->comm);
}

void begin(rank *k) {
  tell(k, "open", 0);
  WANT(k, try_open(k) == SP_OK, "open: %s", k->err.msg);
  WANT(k, k->type->poll(ctx_of(k), k->comm) == SP_OK, "poll: %s", k->err.msg);
  WANT(k, k->device->stream_open(ctx_of(k), k->dev, "comm", 1, &k->stream) == SP_OK, "%s", k->err.msg);
  barrier(k);
}

void end(rank *k) {
  tell(k, "close", 0);
  k->device->stream_close(k->stream);
  k->type->close(k->comm);
}

memory take(rank *k, bool own, size_t bytes) {
  tell(k, own ? "alloc" : "memory of the device", bytes);
  void *p = NULL;
  int rc = own ? k->type->alloc(ctx_of(k), k->comm, bytes, &p)
               : k->device->alloc(ctx_of(k), k->dev, SP_MEM_DEVICE, bytes + 3, &p);
  WANT(k, rc == SP_OK && p, "%zu bytes: %s", bytes, k->err.msg);
  WANT(k, (uintptr_t)p % SP_ALIGN == 0, "%zu bytes at %p, not aligned to %d", bytes, p, SP_ALIGN);
  return (memory){p, own ? p : (char *)p + 3, own};
}

void give(rank *k, memory m) {
  tell(k, "free", 0);
  if (m.own) k->type->free(k->comm, m.base);
  else k->device->free(k->dev, SP_MEM_DEVICE, m.base);
}
