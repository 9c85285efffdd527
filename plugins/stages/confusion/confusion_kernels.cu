/* SPDX-License-Identifier: MIT
 * confusion_kernels.cu - counting pairs on CUDA, with integer atomics: the sums are exact, whatever their order. */
#include "confusion_kernels.h"

#include "../../kits/labels/logits.cuh"

constexpr int THREADS = 256;
constexpr int BLOCKS = 512;            /* at most */
constexpr int64_t TABLE_BYTES = 32768; /* up to so many a block counts in shared memory first */

/* counts, and no bad label yet */
static __global__ void clear(const cfk_job j) {
  int64_t table = j.shape.classes * j.shape.classes;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < table; i += (int64_t)gridDim.x * THREADS)
    j.counts[i] = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) *j.bad = ~0ull;
}

/* `table` is 0 where the block's table does not fit into shared memory. */
static __global__ void count(const cfk_job j, int table) {
  SP_DYNAMIC_SHARED(unsigned, own);
  const logit_shape &s = j.shape;
  int64_t all = s.n * s.px;
  for (int i = threadIdx.x; i < table; i += THREADS) own[i] = 0;
  __syncthreads();
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < all; p += (int64_t)gridDim.x * THREADS) {
    int64_t y = logits_label(j.labels, j.label_dtype, p);
    if (y == j.ignore) continue;
    if (y < 0 || y >= s.classes) {
      atomicMin(j.bad, (unsigned long long)p);
      continue;
    }
    int64_t cell = y * s.classes + logits_argmax(j.x, s, p);
    if (table) atomicAdd(&own[cell], 1u);
    else atomicAdd((unsigned long long *)j.counts + cell, 1ull);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < table; i += THREADS)
    if (own[i]) atomicAdd((unsigned long long *)j.counts + i, (unsigned long long)own[i]);
}

static __global__ void report(const cfk_job j) {
  unsigned long long bad = *j.bad;
  j.status[0] = j.status[1] = j.status[2] = j.status[3] = 0;
  if (bad == ~0ull) return;
  int64_t at = (int64_t)bad, sample = at / j.shape.px;
  j.status[0] = SP_E_DATA;
  j.status[1] = j.ids ? (int64_t)j.ids[sample] : sample;
  j.status[2] = logits_label(j.labels, j.label_dtype, at);
  j.status[3] = j.shape.classes - 1;
}

static unsigned blocks_of(int64_t items) {
  int64_t blocks = (items + THREADS - 1) / THREADS;
  return (unsigned)(blocks < 1 ? 1 : blocks < BLOCKS ? blocks : BLOCKS);
}

int cfk_count(void *stream, const cfk_job *job) {
  int64_t table = job->shape.classes * job->shape.classes, bytes = table * (int64_t)sizeof(unsigned);
  bool fits = bytes <= TABLE_BYTES;
  SP_LAUNCH(clear, blocks_of(table), THREADS, 0, stream, *job);
  SP_LAUNCH(count, blocks_of(job->shape.n * job->shape.px), THREADS, fits ? (size_t)bytes : 0, stream, *job,
            fits ? (int)table : 0);
  SP_LAUNCH(report, 1, 1, 0, stream, *job);
  return cudaPeekAtLastError();
}
