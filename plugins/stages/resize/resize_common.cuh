/* SPDX-License-Identifier: MIT
 * resize_common.cuh - what the kernels that resize share: rows, masks, bytes of floats. */
#ifndef RESIZE_COMMON_CUH
#define RESIZE_COMMON_CUH

#include "resize_kernels.h"

#include "../../kits/aug/kit.cuh"

enum { WARPS = 8, THREADS = 32 * WARPS, ROWS = 8 };

struct axes {
  resize_axis x, y;
};

/* Quads of a row. */
static __host__ __device__ __forceinline__ uint32_t quads_of(const aug_job &j) {
  return ((uint32_t)j.out_w * (uint32_t)j.pix + 3) / 4;
}

/* Elements e .. e + 3 of a row of n; whole: quads are aligned in each row, and none is cut. */
template <typename T> static __device__ __forceinline__ void put(T *row, int e, int n, bool whole, const T (&v)[4]) {
  if (whole) {
    *reinterpret_cast<aug_quad<T> *>(row + e) = aug_quad<T>{{v[0], v[1], v[2], v[3]}};
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++)
    if (e + k < n) row[e + k] = v[k];
}

template <typename T> static __device__ __forceinline__ bool whole_quads(const aug_job &j) {
  return j.out_w * j.pix % 4 == 0 && reinterpret_cast<uintptr_t>(j.out) % sizeof(aug_quad<T>) == 0;
}

/* Where a window begins: pixels. */
struct corner {
  int top, left;
};

/* ---- masks, and images that keep their size ---- */
template <typename T>
static __device__ void pick(const aug_job &j, const axes &a, int warps, int rows, int64_t sample, corner from) {
  int n = j.out_w * j.pix;
  bool whole = whole_quads<T>(j), moved = a.x.in != a.x.out; /* never of images */
  aug_place p = aug_place_of(j, quads_of(j), warps, rows);
  int e = 4 * p.x, at[4];
  if (p.plane < 0 || e >= n) return;
#pragma unroll
  for (int k = 0; k < 4; k++) at[k] = e + k >= n ? 0 : moved ? resize_nearest(&a.x, e + k) : e + k;
  T *out = static_cast<T *>(j.out) + ((sample * j.planes + p.plane) * j.out_h + p.y) * n;
#pragma unroll 2
  for (int r = 0; r < rows; r++, out += n) {
    if (p.y + r >= j.out_h) return;
    const T *row =
        aug_row<T>(j, sample, p.plane, from.top + resize_nearest(&a.y, p.y + r)) + (int64_t)from.left * j.pix;
    put(out, e, n, whole, {row[at[0]], row[at[1]], row[at[2]], row[at[3]]});
  }
}

static __device__ bool picked(const aug_job &j, const axes &a, int warps, int rows, int64_t sample,
                              corner from = {0, 0}) {
  if (!j.mask && (a.x.in != a.x.out || a.y.in != a.y.out)) return false;
  aug_by_size(j.dtype, [&](auto t) { pick<decltype(t)>(j, a, warps, rows, sample, from); });
  return true;
}

static __device__ __forceinline__ int column_of(const aug_job &j, int e) {
  return j.pix == 1 ? e : j.pix == 3 ? (int)((uint32_t)e / 3) : (int)((uint32_t)e / (uint32_t)j.pix);
}

/* Of 0 .. 255: cheaper than a conversion, since 1.5 * 2^23 has no fraction. */
static __device__ __forceinline__ uint8_t nearest(uint8_t, float v) {
  return (uint8_t)__float_as_uint(__fadd_rn(v, 12582912.0f));
}
static __device__ __forceinline__ float nearest(float, float v) { return v; }

static __device__ __forceinline__ uint8_t clamped(uint8_t, float v) { return nearest(uint8_t(), fminf(v, 255.0f)); }
static __device__ __forceinline__ uint8_t clamped(uint8_t, int32_t v) { return cubic_byte(v); }
static __device__ __forceinline__ float clamped(float, float v) { return v; }

/* ---- sums ---- */
/* What they are made of: whole numbers where bytes are cubic, else floats. */
template <typename T, bool CUBIC> struct resize_sum {
  typedef float number;
  typedef float4 four;
};
template <> struct resize_sum<uint8_t, true> {
  typedef int32_t number;
  typedef int4 four;
};

/* -0 changes no sum of floats. The argument only says of what kind. */
static __device__ __forceinline__ float sum_start(float) { return -0.0f; }
static __device__ __forceinline__ int32_t sum_start(int32_t) { return CUBIC_HALF; }

static __device__ __forceinline__ float sum_add(float sum, float v) { return __fadd_rn(sum, v); }
static __device__ __forceinline__ int32_t sum_add(int32_t sum, int32_t v) { return sum + v; }
static __device__ __forceinline__ float product(float v, float w) { return __fmul_rn(v, w); }
static __device__ __forceinline__ int32_t product(int32_t v, int32_t w) { return v * w; }

/* Behind the sum along x. */
static __device__ __forceinline__ float sum_between(float sum) { return sum; }
static __device__ __forceinline__ int32_t sum_between(int32_t sum) { return cubic_byte(sum); }

/* A cubic weight for sums of that kind. */
static __device__ __forceinline__ float cubic_weight(float, double w) { return (float)w; }
static __device__ __forceinline__ int32_t cubic_weight(int32_t, double w) { return cubic_whole(w); }

#endif
