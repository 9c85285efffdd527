/* SPDX-License-Identifier: MIT
 *
 * spcore/ext/parallel.h - "spcore.parallel/1": threads for a CPU stage.
 *
 * Work is cut into items; which thread runs an item is left to chance, so a stage that wants the same bits every time
 * lets no result depend on it: an item writes its own part of the output, and sums over items are added in item order.
 */
#ifndef SPCORE_EXT_PARALLEL_H
#define SPCORE_EXT_PARALLEL_H

#include "../abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_EXT_PARALLEL "spcore.parallel/1"

typedef struct sp_parallel {
  uint32_t size, reserved;

  /* The team size of a stage: the run option --threads. Constant for the life of the instance. Libraries with threads
   * of their own (OpenMP) are to use as many. [any thread, within a callback] */
  int (*threads)(sp_ctx *ctx);

  /* Calls fn(arg, i, worker) for every i in 0..n-1, on the calling thread and up to `threads` - 1 helpers; returns when
   * all are done. threads 0: as many as threads() says. worker is in 0..threads-1 and no two calls at one time share
   * it. A non-zero result of fn stops the handing out of items and is returned (that of the smallest i that failed).
   * Not to be nested. [any thread, within a callback] */
  int (*run)(sp_ctx *ctx, int threads, int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg);
} sp_parallel;

#ifdef __cplusplus
}
#endif
#endif
