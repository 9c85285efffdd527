/* SPDX-License-Identifier: MIT
 * cuda_fill.cu - one number for all elements, made on the device. */
#include "cuda_kernels.h"

#include "../cuda/launch.h"

static __global__ void fill(float *p, float value, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = value;
}

extern "C" int nnk_fill(void *stream, float *p, float value, int64_t n) {
  SP_LAUNCH(fill, (unsigned)((n + 255) / 256), 256, 0, stream, p, value, n);
  return (int)cudaPeekAtLastError();
}
