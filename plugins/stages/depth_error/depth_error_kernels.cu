/* SPDX-License-Identifier: MIT
 * depth_error_kernels.cu - exact sums of relative and logarithmic differences on CUDA: a block adds a column's counts
 * and limbs in shared memory, with integer atomics, which give the same whatever their order. */
#include "depth_error_kernels.h"

#include "../../kits/cuda/launch.h"

constexpr int THREADS = 256;
constexpr int BLOCKS = 256; /* at most, of a column */

static __global__ void clear(const depthk_job j, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS) j.sums[i] = 0;
}

static __device__ void add(unsigned long long *limbs, double v) {
  dev_parts s = dev_split(v);
  for (int k = 0; k < 4 && s.first + k < DEV_LIMBS; k++)
    if (s.part[k]) atomicAdd(limbs + s.first + k, (unsigned long long)s.part[k]);
}

static __global__ void sum_up(const depthk_job j) {
  __shared__ unsigned long long own[DEPTH_CELLS];
  int64_t c = blockIdx.y, all = j.s.n * j.s.px;
  for (int i = threadIdx.x; i < DEPTH_CELLS; i += THREADS) own[i] = 0;
  __syncthreads();
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < all; p += (int64_t)gridDim.x * THREADS) {
    depth_pair r = depth_values(&j.p, j.x[dev_at(&j.s, j.s.x_rows, p, c)], j.y[dev_at(&j.s, j.s.y_rows, p, c)]);
    if (r.counts < 0) atomicAdd(own + r.which, 1ull);
    if (r.counts <= 0) continue;
    atomicAdd(own + DEPTH_N, 1ull);
    if (r.low) atomicAdd(own + DEPTH_LOW_INPUTS, 1ull);
    for (int k = DEPTH_DELTAS - r.deltas; k < DEPTH_DELTAS; k++) atomicAdd(own + DEPTH_DELTA + k, 1ull);
    for (int k = 0; k < DEPTH_ROWS - 1; k++) add(own + (k + 1) * DEV_LIMBS, r.values[k]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < DEPTH_CELLS; i += THREADS)
    if (own[i]) atomicAdd((unsigned long long *)j.sums + c * DEPTH_CELLS + i, own[i]);
}

static unsigned blocks_of(int64_t items) {
  int64_t blocks = (items + THREADS - 1) / THREADS;
  return (unsigned)(blocks < 1 ? 1 : blocks < BLOCKS ? blocks : BLOCKS);
}

int depthk_sum(void *stream, const depthk_job *job) {
  int64_t cells = job->s.columns * DEPTH_CELLS;
  SP_LAUNCH(clear, blocks_of(cells), THREADS, 0, stream, *job, cells);
  SP_LAUNCH(sum_up, dim3(blocks_of(job->s.n * job->s.px), (unsigned)job->s.columns), THREADS, 0, stream, *job);
  return cudaPeekAtLastError();
}
