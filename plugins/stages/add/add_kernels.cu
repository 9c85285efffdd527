/* SPDX-License-Identifier: MIT
 * add_kernels.cu - sums of tensors on CUDA. */
#include "add_kernels.h"

#include "../../kits/cuda/grid.h"
#include "../../kits/cuda/launch.h"

struct sum_list {
  int n;
  const float *x[ADK_LIST];
};

struct pass_list {
  int n;
  float *dx[ADK_LIST];
  uint8_t acc[ADK_LIST];
};

static __device__ float plus(float a, float b) { return a + b; }
static __device__ float4 plus(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

template <typename T> static __global__ void sum(T *y, const sum_list list, int add, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * GRID_THREADS) {
    T v = add ? y[i] : ((const T *)list.x[0])[i];
    for (int k = add ? 0 : 1; k < list.n; k++) v = plus(v, ((const T *)list.x[k])[i]);
    y[i] = v;
  }
}

template <typename T> static __global__ void pass(const pass_list list, const T *dy, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * GRID_THREADS) {
    T v = dy ? dy[i] : T();
    for (int k = 0; k < list.n; k++) {
      T *dx = (T *)list.dx[k];
      dx[i] = list.acc[k] ? plus(dx[i], v) : v;
    }
  }
}

static bool aligned(const void *p) { return (uintptr_t)p % sizeof(float4) == 0; }

int adk_sum(void *stream, float *y, const float *const *x, int n_x, int add, int64_t n) {
  if (!n) return cudaSuccess;
  for (int from = 0; from < n_x; from += ADK_LIST) {
    sum_list list = {};
    bool wide = n % 4 == 0 && aligned(y);
    for (int k = from; k < n_x && list.n < ADK_LIST; k++) {
      wide = wide && aligned(x[k]);
      list.x[list.n++] = x[k];
    }
    if (wide) SP_LAUNCH(sum<float4>, grid_for(n / 4), GRID_THREADS, 0, stream, (float4 *)y, list, add || from, n / 4);
    else SP_LAUNCH(sum<float>, grid_for(n), GRID_THREADS, 0, stream, y, list, add || from, n);
  }
  return cudaPeekAtLastError();
}

int adk_pass(void *stream, float *const *dx, const uint8_t *acc, int n_dx, const float *dy, int64_t n) {
  if (!n) return cudaSuccess;
  for (int k = 0; k < n_dx;) {
    pass_list list = {};
    bool wide = n % 4 == 0 && aligned(dy);
    for (; k < n_dx && list.n < ADK_LIST; k++) {
      if (!dx[k] || (acc[k] && !dy)) continue;
      wide = wide && aligned(dx[k]);
      list.dx[list.n] = dx[k];
      list.acc[list.n++] = acc[k];
    }
    if (!list.n) continue;
    if (wide) SP_LAUNCH(pass<float4>, grid_for(n / 4), GRID_THREADS, 0, stream, list, (const float4 *)dy, n / 4);
    else SP_LAUNCH(pass<float>, grid_for(n), GRID_THREADS, 0, stream, list, dy, n);
  }
  return cudaPeekAtLastError();
}
