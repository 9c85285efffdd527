/* SPDX-License-Identifier: MIT
 * concat_kernels.cu - joining and splitting rows on CUDA. */
#include "concat_kernels.h"

#include "../../kits/cuda/grid.h"
#include "../../kits/cuda/launch.h"

/* A launch is for the parts of one list: columns `column` and on of the whole's rows. Counts are of elements of the
 * kernel's type. */
struct part_list {
  int n;
  int64_t outer, all, column;
  int64_t end[CTK_LIST]; /* where each part ends, counted from `column` */
  float *part[CTK_LIST];
  uint8_t acc[CTK_LIST];
};

static __device__ float plus(float a, float b) { return a + b; }
static __device__ float4 plus(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

static __device__ int part_at(const part_list &list, int64_t column) {
  int lo = 0, hi = list.n - 1;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (list.end[mid] > column) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

/* JOIN: parts to the whole. Else the whole to the parts; whole NULL is zero. */
template <typename T, bool JOIN> static __global__ void move(const part_list list, T *whole) {
  int64_t width = list.end[list.n - 1], n = list.outer * width;
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * GRID_THREADS) {
    int64_t row = i / width, column = i % width;
    int k = part_at(list, column);
    T *part = (T *)list.part[k];
    if (!part) continue;
    int64_t first = k ? list.end[k - 1] : 0, at = row * (list.end[k] - first) + column - first;
    int64_t there = row * list.all + list.column + column;
    if (JOIN) {
      whole[there] = part[at];
    } else {
      T v = whole ? whole[there] : T();
      part[at] = list.acc[k] ? plus(part[at], v) : v;
    }
  }
}

static bool aligned(const void *p) { return (uintptr_t)p % sizeof(float4) == 0; }

template <bool JOIN>
static int run_lists(void *stream, float *const *part, const uint8_t *acc, const int64_t *run, int n, float *whole,
                     int64_t outer, int64_t all) {
  bool wide = all % 4 == 0 && aligned(whole);
  for (int k = 0; k < n; k++) wide = wide && run[k] % 4 == 0 && aligned(part[k]);
  int64_t unit = wide ? 4 : 1, column = 0;
  for (int from = 0; from < n; from += CTK_LIST) {
    part_list list = {};
    list.outer = outer;
    list.all = all / unit;
    list.column = column / unit;
    int64_t width = 0;
    for (int k = from; k < n && list.n < CTK_LIST; k++, list.n++) {
      list.end[list.n] = width += run[k] / unit;
      list.part[list.n] = part[k];
      list.acc[list.n] = acc ? acc[k] : 0;
    }
    column += width * unit;
    unsigned grid = grid_for(outer * width);
    if (!grid) continue;
    if (wide) SP_LAUNCH((move<float4, JOIN>), grid, GRID_THREADS, 0, stream, list, (float4 *)whole);
    else SP_LAUNCH((move<float, JOIN>), grid, GRID_THREADS, 0, stream, list, whole);
  }
  return cudaPeekAtLastError();
}

int ctk_join(void *stream, float *y, const float *const *x, const int64_t *run, int n, int64_t outer, int64_t all) {
  return run_lists<true>(stream, (float *const *)x, NULL, run, n, y, outer, all);
}

int ctk_split(void *stream, float *const *dx, const uint8_t *acc, const int64_t *run, int n, const float *dy,
              int64_t outer, int64_t all) {
  return run_lists<false>(stream, dx, acc, run, n, (float *)dy, outer, all);
}
