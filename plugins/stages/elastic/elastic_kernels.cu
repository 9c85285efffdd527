/* SPDX-License-Identifier: MIT
 * elastic_kernels.cu - images moved by a field of displacements on CUDA: one kernel draws the field and smooths it
 * along x, one smooths it along y, one moves the pixels. */
#include "elastic_kernels.h"

#include "../../kits/warp/warp.cuh"

enum { THREADS = 256 };

/* A block makes THREADS pixels of a row, of noise that it draws with a margin on both sides. */
static __global__ void __launch_bounds__(THREADS)
    draw(aug_dice dice, elastic_range range, const elastic_kernel kernel, float2 *rows) {
  SP_DYNAMIC_SHARED(float2, noise);
  int tiles = (range.w + THREADS - 1) / THREADS, y = blockIdx.x / tiles, left = (blockIdx.x - y * tiles) * THREADS;
  int r = kernel.radius, n = min((int)THREADS, range.w - left) + 2 * r;
  if (!elastic_moves(&dice, blockIdx.y, range.probability)) return;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    int x = elastic_mirror(left + i - r, range.w);
    sp_rng4 v = elastic_words(&dice, blockIdx.y, y, x / 2, range.w);
    noise[i] = make_float2(elastic_noise(v.v[x % 2 * 2]), elastic_noise(v.v[x % 2 * 2 + 1]));
  }
  __syncthreads();
  int x = left + threadIdx.x;
  if (x >= range.w) return;
  const float2 *at = noise + threadIdx.x + r;
  float2 sum = make_float2(__fmul_rn(at[0].x, kernel.weight[0]), __fmul_rn(at[0].y, kernel.weight[0]));
  for (int d = 1; d <= r; d++) {
    float2 a = at[-d], b = at[d];
    sum.x = __fadd_rn(sum.x, __fmul_rn(__fadd_rn(a.x, b.x), kernel.weight[d]));
    sum.y = __fadd_rn(sum.y, __fmul_rn(__fadd_rn(a.y, b.y), kernel.weight[d]));
  }
  rows[((int64_t)blockIdx.y * range.h + y) * range.w + x] = sum;
}

/* A thread a pixel. A sample that stays gets zeros. */
static __global__ void __launch_bounds__(THREADS)
    smooth(aug_dice dice, elastic_range range, const elastic_kernel kernel, const float2 *rows, float2 *field) {
  int64_t plane = (int64_t)range.h * range.w;
  bool moves = elastic_moves(&dice, blockIdx.y, range.probability);
  rows += blockIdx.y * plane;
  field += blockIdx.y * plane;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < plane; i += (int64_t)gridDim.x * THREADS) {
    int y = (int)((uint32_t)i / (uint32_t)range.w), x = (int)i - y * range.w;
    float2 sum = make_float2(0, 0);
    if (moves) {
      sum = make_float2(__fmul_rn(rows[i].x, kernel.weight[0]), __fmul_rn(rows[i].y, kernel.weight[0]));
      for (int d = 1; d <= kernel.radius; d++) {
        float2 a = rows[(int64_t)elastic_mirror(y - d, range.h) * range.w + x];
        float2 b = rows[(int64_t)elastic_mirror(y + d, range.h) * range.w + x];
        sum.x = __fadd_rn(sum.x, __fmul_rn(__fadd_rn(a.x, b.x), kernel.weight[d]));
        sum.y = __fadd_rn(sum.y, __fmul_rn(__fadd_rn(a.y, b.y), kernel.weight[d]));
      }
      sum = make_float2(__fmul_rn(sum.x, range.x), __fmul_rn(sum.y, range.y));
    }
    field[i] = sum;
  }
}

static __global__ void __launch_bounds__(WARP_THREADS)
    move(const aug_jobs jobs, const warp_how how, aug_dice dice, float probability, bool given, const float2 *field) {
  const aug_job &j = jobs.job[blockIdx.z];
  const warp_by_field where = {field + (int64_t)blockIdx.y * j.h * j.w, j.w, (float)j.w, (float)j.h};
  if (!given && !elastic_moves(&dice, blockIdx.y, probability)) warp_copy(j);
  else warp_tensor(j, where, how);
}

int elastic_launch(void *stream, const aug_jobs *jobs, const elastic_call *call, const elastic_kernel *x,
                   const elastic_kernel *y) {
  const elastic_range &range = call->range;
  int64_t plane = (int64_t)range.h * range.w, blocks = (plane + THREADS - 1) / THREADS;
  float2 *rows = reinterpret_cast<float2 *>(call->scratch);
  const float2 *field = reinterpret_cast<const float2 *>(call->given);
  if (call->given) {
    if (call->told)
      cudaMemcpyAsync(call->told, call->given, (size_t)(jobs->n * plane) * sizeof(float2), cudaMemcpyDeviceToDevice,
                      static_cast<cudaStream_t>(stream));
  } else {
    float2 *made = call->told ? reinterpret_cast<float2 *>(call->told) : rows + jobs->n * plane;
    dim3 tiles((unsigned)((range.w + THREADS - 1) / THREADS * range.h), (unsigned)jobs->n);
    dim3 grid((unsigned)(blocks < 65535 ? blocks : 65535), (unsigned)jobs->n);
    SP_LAUNCH(draw, tiles, THREADS, (THREADS + 2 * (size_t)x->radius) * sizeof(float2), stream, call->dice, range, *x,
              rows);
    SP_LAUNCH(smooth, grid, THREADS, 0, stream, call->dice, range, *y, rows, made);
    field = made;
  }
  SP_LAUNCH(move, warp_grid(jobs), WARP_THREADS, 0, stream, *jobs, call->how, call->dice, range.probability,
            call->given != nullptr, field);
  return cudaPeekAtLastError();
}
