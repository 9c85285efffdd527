/* SPDX-License-Identifier: MIT
 * deviation_kernels.cu - exact sums of differences on CUDA: a block adds a column's limbs in shared memory, with
 * integer atomics, which give the same whatever their order. */
#include "deviation_kernels.h"

#include "../../kits/cuda/launch.h"

constexpr int THREADS = 256;
constexpr int BLOCKS = 256; /* at most, of a column */

static __global__ void clear(const devk_job j, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS) j.sums[i] = 0;
}

static __device__ void add(unsigned long long *limbs, double v) {
  dev_parts s = dev_split(v);
  for (int k = 0; k < 4 && s.first + k < DEV_LIMBS; k++)
    if (s.part[k]) atomicAdd(limbs + s.first + k, (unsigned long long)s.part[k]);
}

static __global__ void sum_up(const devk_job j) {
  __shared__ unsigned long long own[DEV_CELLS];
  int64_t c = blockIdx.y, all = j.s.n * j.s.px;
  for (int i = threadIdx.x; i < DEV_CELLS; i += THREADS) own[i] = 0;
  __syncthreads();
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < all; p += (int64_t)gridDim.x * THREADS) {
    double values[DEV_ROWS - 1];
    int counts = dev_values(j.x[dev_at(&j.s, j.s.x_rows, p, c)], j.y[dev_at(&j.s, j.s.y_rows, p, c)], values);
    if (counts) atomicAdd(own + (counts < 0), 1ull);
    for (int k = 0; k < DEV_ROWS - 1 && counts > 0; k++) add(own + (k + 1) * DEV_LIMBS, values[k]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < DEV_CELLS; i += THREADS)
    if (own[i]) atomicAdd((unsigned long long *)j.sums + c * DEV_CELLS + i, own[i]);
}

static unsigned blocks_of(int64_t items) {
  int64_t blocks = (items + THREADS - 1) / THREADS;
  return (unsigned)(blocks < 1 ? 1 : blocks < BLOCKS ? blocks : BLOCKS);
}

int devk_sum(void *stream, const devk_job *job) {
  int64_t cells = job->s.columns * DEV_CELLS;
  SP_LAUNCH(clear, blocks_of(cells), THREADS, 0, stream, *job, cells);
  SP_LAUNCH(sum_up, dim3(blocks_of(job->s.n * job->s.px), (unsigned)job->s.columns), THREADS, 0, stream, *job);
  return cudaPeekAtLastError();
}
