/* SPDX-License-Identifier: MIT
 * sleep_kernels.cu - waiting on CUDA; the CPU emulator does not wait. */
#include "sleep_kernels.h"

#include "../../kits/cuda/grid.h"
#include "../../kits/cuda/launch.h"

#define HOLD_THREADS 256

/* Words, then what is left of bytes; tensors are aligned to more. */
static __global__ void hold(uint64_t ns, const sp_step *step, int64_t fail_at, unsigned char *dst,
                            const unsigned char *src, int bytes) {
  int words = bytes / 4;
  for (int i = (int)threadIdx.x; i < words; i += HOLD_THREADS)
    ((uint32_t *)(void *)dst)[i] = ((const uint32_t *)(const void *)src)[i];
  for (int i = words * 4 + (int)threadIdx.x; i < bytes; i += HOLD_THREADS) dst[i] = src[i];
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

int slk_wait(void *stream, double ms, const sp_step *step, int64_t fail_at, void *dst, const void *src, int bytes) {
  if (ms <= 0 && fail_at < 0 && !bytes) return cudaSuccess;
  SP_LAUNCH(hold, 1, bytes ? HOLD_THREADS : 1, 0, stream, (uint64_t)(ms * 1e6), step, fail_at, (unsigned char *)dst,
            (const unsigned char *)src, bytes);
  return cudaPeekAtLastError();
}

int slk_add(void *stream, float *dst, const float *src, int64_t n) {
  if (!n) return cudaSuccess;
  SP_LAUNCH(add_to, grid_for(n), GRID_THREADS, 0, stream, dst, src, n);
  return cudaPeekAtLastError();
}
