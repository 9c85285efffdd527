/* SPDX-License-Identifier: MIT
 * to_float_kernels.cu - bytes to float32 on CUDA. */
#include "to_float_kernels.h"

#include "../cuda/grid.h"
#include "../cuda/launch.h"

static __global__ void convert_quads(float4 *out, const uchar4 *in, int64_t n, float by) {
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * GRID_THREADS) {
    uchar4 v = in[i];
    out[i] = make_float4((float)v.x * by, (float)v.y * by, (float)v.z * by, (float)v.w * by);
  }
}

static __global__ void convert_each(float *out, const uint8_t *in, int64_t n, float by) {
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * GRID_THREADS)
    out[i] = (float)in[i] * by;
}

int tfk_convert(void *stream, float *out, const uint8_t *in, int64_t n, float by) {
  bool aligned = (uintptr_t)out % sizeof(float4) == 0 && (uintptr_t)in % sizeof(uchar4) == 0;
  int64_t quads = aligned ? n / 4 : 0, rest = n - 4 * quads;
  if (quads)
    SP_LAUNCH(convert_quads, grid_for(quads), GRID_THREADS, 0, stream, (float4 *)out, (const uchar4 *)in, quads, by);
  if (rest) SP_LAUNCH(convert_each, grid_for(rest), GRID_THREADS, 0, stream, out + 4 * quads, in + 4 * quads, rest, by);
  return cudaPeekAtLastError();
}
