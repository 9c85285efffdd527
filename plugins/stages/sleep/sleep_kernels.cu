/* SPDX-License-Identifier: MIT
 * sleep_kernels.cu - waiting on CUDA; the CPU emulator does not wait. */
#include "sleep_kernels.h"

#include "../../kits/cuda/grid.h"
#include "../../kits/cuda/launch.h"

static __global__ void hold(uint64_t ns, const sp_step *step, int64_t fail_at) {
#ifdef __CUDA_ARCH__
  uint64_t from, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(from));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - from < ns);
#else
  (void)ns;
#endif
  if (step && fail_at >= 0 && step->step == (uint64_t)fail_at) __trap();
}

static __global__ void add_to(float *dst, const float *src, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * GRID_THREADS)
    dst[i] += src[i];
}

int slk_wait(void *stream, double ms, const sp_step *step, int64_t fail_at) {
  if (ms <= 0 && fail_at < 0) return cudaSuccess;
  SP_LAUNCH(hold, 1, 1, 0, stream, (uint64_t)(ms * 1e6), step, fail_at);
  return cudaPeekAtLastError();
}

int slk_add(void *stream, float *dst, const float *src, int64_t n) {
  if (!n) return cudaSuccess;
  SP_LAUNCH(add_to, grid_for(n), GRID_THREADS, 0, stream, dst, src, n);
  return cudaPeekAtLastError();
}
