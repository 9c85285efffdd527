/* SPDX-License-Identifier: MIT
 * tally.cuh - kernels that count: threads stride over items, a block counts in shared memory where that is large
 * enough, and integer atomics give the same whatever their order. */
#ifndef SPCORE_CUDA_TALLY_CUH
#define SPCORE_CUDA_TALLY_CUH

#include "launch.h"

constexpr int TALLY_THREADS = 256;
constexpr int64_t TALLY_BYTES = 32768; /* up to so many a block counts in shared memory first */

static inline unsigned tally_blocks(int64_t items, int most) {
  int64_t blocks = (items + TALLY_THREADS - 1) / TALLY_THREADS;
  return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* The items of a thread: the first, and how far it is to the next. */
static __device__ inline int64_t tally_first(void) { return (int64_t)blockIdx.x * TALLY_THREADS + threadIdx.x; }
static __device__ inline int64_t tally_step(void) { return (int64_t)gridDim.x * TALLY_THREADS; }

static __global__ void tally_clear_cells(int64_t *cells, int64_t n, unsigned long long *bad) {
  for (int64_t i = tally_first(); i < n; i += tally_step()) cells[i] = 0;
  if (bad && blockIdx.x == 0 && threadIdx.x == 0) *bad = ~0ull;
}

/* Nothing is counted yet, and, where the kernel notes the first bad item, none is bad. */
static inline void tally_clear(void *stream, int64_t *cells, int64_t n, unsigned long long *bad, int most_blocks) {
  SP_LAUNCH(tally_clear_cells, tally_blocks(n, most_blocks), TALLY_THREADS, 0, stream, cells, n, bad);
}

/* A block's own counts in shared memory: none yet, and added to those of all. */
template <typename T> static __device__ inline void tally_begin(T *own, int n) {
  for (int i = threadIdx.x; i < n; i += TALLY_THREADS) own[i] = 0;
  __syncthreads();
}

template <typename T> static __device__ inline void tally_end(const T *own, int n, int64_t *all) {
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += TALLY_THREADS)
    if (own[i]) atomicAdd((unsigned long long *)all + i, (unsigned long long)own[i]);
}

#endif
