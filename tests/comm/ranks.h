/* SPDX-License-Identifier: MIT
 * ranks.h - one rank of a test of communicators, and what ranks share beside the communicator under test. */
#ifndef SP_TESTS_RANKS_H
#define SP_TESTS_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>

#include <spcore/comm.h>
#include <spcore/device.h>

#include "base/ctx.h"
#include "base/util.h"
#include "host/env.h"

#define RANKS 8

/* In memory that all ranks map: it stands for the control connections. */
typedef struct board {
  atomic_uint arrived;
  atomic_int ranks_gone; /* one has died or failed: nobody waits for the others any more */
  char slot[RANKS][4096];
} board;

typedef struct rank {
  int r, n;
  board *board;
  uint32_t rounds; /* barriers that it has passed */
  sp_env *env;     /* of threads: the same for all */
  const sp_comm_type *type;
  const sp_device_type *device;
  void *dev, *stream, *comm;
  sp_comm_boot boot;
  sp_ctx_holder holder;
  sp_err err;
} rank;

/* Ends the process, and with it the test, with a line that says which rank. */
_Noreturn void die(const rank *k, const char *fmt, ...) SP_PRINTF(2, 3);
#define WANT(k, condition, ...)            \
  do {                                     \
    if (!(condition)) die(k, __VA_ARGS__); \
  } while (0)

void barrier(rank *k);
int exchange(const sp_comm_boot *boot, const void *mine, size_t bytes, void *all);
sp_ctx *ctx_of(rank *k); /* with empty words in k->err */

/* calls.c: a call of the communicator, and memory for it: the communicator's, or the device's off any alignment. */
enum { ALL_TO_ALL, ALL_GATHER, BROADCAST, ALL_GATHER_LIST };

typedef struct call {
  rank *k;
  int kind, root;
  void *dst;
  const void *src;
  size_t bytes; /* ALL_GATHER_LIST: how many src points to */
  int status; /* when the stream is through with it */
  sp_ctx_holder holder;
  sp_err err;
} call;

typedef struct memory {
  char *base, *at;
  bool own;
} memory;

int try_open(rank *k);
void begin(rank *k); /* opens communicator and stream */
void end(rank *k);
void enqueue(call *c);  /* which stays until wait_for() */
void wait_for(rank *k); /* all that was enqueued */
int make(rank *k, call *c, int kind, void *dst, const void *src, size_t bytes, int root); /* returns when it is over */
memory take(rank *k, bool own, size_t bytes);
void give(rank *k, memory m);

/* cases.c, or who else has main() of ranks.c: each is run by all ranks, whose device is open. */
typedef struct test_case {
  const char *name;
  void (*run)(rank *k);
} test_case;
extern const test_case cases[];

#endif
