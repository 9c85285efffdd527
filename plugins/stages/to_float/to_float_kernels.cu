/* SPDX-License-Identifier: MIT
 * to_float_kernels.cu - bytes to float32 on CUDA. */
#include "to_float_kernels.h"

#include "../../kits/cuda/grid.h"
#include "../../kits/cuda/launch.h"

enum { EACH = 8 }; /* quads of a thread, which are read before the first is written */

static __global__ void __launch_bounds__(GRID_THREADS)
    convert_quads(float4 *out, const uchar4 *in, int64_t n, float by) {
  int64_t first = (int64_t)blockIdx.x * (GRID_THREADS * EACH) + threadIdx.x;
  uchar4 v[EACH];
#pragma unroll
  for (int k = 0; k < EACH; k++) {
    int64_t i = first + k * GRID_THREADS;
    if (i < n) v[k] = in[i];
  }
#pragma unroll
  for (int k = 0; k < EACH; k++) {
    int64_t i = first + k * GRID_THREADS;
    if (i < n) out[i] = make_float4((float)v[k].x * by, (float)v[k].y * by, (float)v[k].z * by, (float)v[k].w * by);
  }
}

static __global__ void convert_each(float *out, const uint8_t *in, int64_t n, float by) {
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * GRID_THREADS)
    out[i] = (float)in[i] * by;
}

int tfk_convert(void *stream, float *out, const uint8_t *in, int64_t n, float by) {
  bool aligned = (uintptr_t)out % sizeof(float4) == 0 && (uintptr_t)in % sizeof(uchar4) == 0;
  int64_t quads = aligned ? n / 4 : 0, rest = n - 4 * quads;
  unsigned blocks = (unsigned)((quads + GRID_THREADS * EACH - 1) / (GRID_THREADS * EACH));
  if (quads) SP_LAUNCH(convert_quads, blocks, GRID_THREADS, 0, stream, (float4 *)out, (const uchar4 *)in, quads, by);
  if (rest) SP_LAUNCH(convert_each, grid_for(rest), GRID_THREADS, 0, stream, out + 4 * quads, in + 4 * quads, rest, by);
  return cudaPeekAtLastError();
}
