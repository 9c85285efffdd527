/* SPDX-License-Identifier: MIT
 * warp.cuh - images whose pixels come from elsewhere in them, on CUDA: a thread finds where four pixels side by side
 * come from, once for all channels, and stores them at once. */
#ifndef SP_PLUGINS_WARP_CUH
#define SP_PLUGINS_WARP_CUH

#include "../aug/kit.cuh"
#include "warp.h"

enum { WARP_THREADS = 256 };

/* ---- where from: x() and y() of pixel (i, row) ---- */
struct warp_by_map {
  warp_map m;
  __device__ __forceinline__ void at(int i, int row, float &x, float &y) const {
    float across = (float)i + m.left, down = (float)row + m.top;
    x = warp_line(m.x, across, down);
    y = warp_line(m.y, across, down);
    if (m.kind == WARP_PLANE) {
      float depth = warp_depth(m.z, across, down);
      x = __fadd_rn(__fdiv_rn(x, depth), -1.0f);
      y = __fadd_rn(__fdiv_rn(y, depth), -1.0f);
    }
    x = warp_pixel(x, m.w);
    y = warp_pixel(y, m.h);
  }
};

/* By a field of displacements: of each pixel x and y, in halves of the image. */
struct warp_by_field {
  const float2 *field;
  int w;
  float wide, high;
  __device__ __forceinline__ void at(int i, int row, float &x, float &y) const {
    float2 by = field[(int64_t)row * w + i];
    x = warp_moved(i, wide, by.x);
    y = warp_moved(row, high, by.y);
  }
};

/* ---- what is there ---- */
template <typename T> struct warp_nearest {
  int at; /* in the plane, in pixels; -1: nowhere */
  __device__ warp_nearest(const aug_job &j, float x, float y) {
    int i = __float2int_rn(x), row = __float2int_rn(y);
    at = i >= 0 && i < j.w && row >= 0 && row < j.h ? row * j.w + i : -1;
  }
  __device__ __forceinline__ T of(const aug_job &j, const T *plane, float fill) const {
    return at < 0 ? aug_to(T(), fill) : plane[(int64_t)at * j.pix];
  }
  __device__ __forceinline__ T of_mask(const T *plane, T fill) const { return at < 0 ? fill : plane[at]; }
};

template <typename T> struct warp_bilinear {
  float weight[4];
  int at, right, down;
  bool inside;
  __device__ warp_bilinear(const aug_job &j, float x, float y) {
    int i, row, in_x, in_y;
    float left, next, upper, lower;
    warp_axis(x, j.w, &i, &left, &next, &in_x);
    warp_axis(y, j.h, &row, &upper, &lower, &in_y);
    weight[0] = __fmul_rn(left, upper);
    weight[1] = __fmul_rn(next, upper);
    weight[2] = __fmul_rn(left, lower);
    weight[3] = __fmul_rn(next, lower);
    inside = in_x && in_y;
    at = row * j.w + i;
    right = j.w > 1 ? 1 : 0;
    down = j.h > 1 ? j.w : 0;
  }
  __device__ __forceinline__ T of(const aug_job &j, const T *plane, float fill) const {
    const T *a = plane + (int64_t)at * j.pix, *b = a + (int64_t)down * j.pix;
    int next = right * j.pix;
    float v;
    if (inside) {
      v = __fadd_rn(__fmul_rn((float)a[0], weight[0]), __fmul_rn((float)a[next], weight[1]));
      v = __fadd_rn(__fadd_rn(v, __fmul_rn((float)b[0], weight[2])), __fmul_rn((float)b[next], weight[3]));
    } else {
      float all = __fadd_rn(__fadd_rn(__fadd_rn(weight[0], weight[1]), weight[2]), weight[3]);
      v = __fadd_rn(warp_weighed((float)a[0], weight[0]), warp_weighed((float)a[next], weight[1]));
      v = __fadd_rn(__fadd_rn(v, warp_weighed((float)b[0], weight[2])), warp_weighed((float)b[next], weight[3]));
      v = warp_filled(v, all, fill);
    }
    if (sizeof(T) == 1) v = v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v;
    return aug_to(T(), v);
  }
};

/* ---- the rows of a tensor ---- */
/* Calls make(row, i) for this thread's share of the groups of four pixels of a sample. */
template <typename Make> static __device__ __forceinline__ void warp_each_four(const aug_job &j, Make make) {
  int fours = (j.w + 3) / 4;
  int64_t all = (int64_t)j.h * fours; /* below 2^30 */
  for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < all; k += (int64_t)gridDim.x * blockDim.x) {
    int row = (int)((uint32_t)k / (uint32_t)fours);
    make(row, ((int)k - row * fours) * 4);
  }
}

/* Images of one type. */
template <template <typename> class Sample, typename T, typename Where>
static __device__ void warp_image(const aug_job &j, const Where &where, const warp_how &how) {
  int64_t plane = (int64_t)j.w * j.h * j.pix, sample = (int64_t)blockIdx.y * j.planes;
  const T *in = static_cast<const T *>(j.in) + sample * plane;
  T *out = static_cast<T *>(j.out) + sample * plane;
  warp_each_four(j, [&](int row, int i) {
    float x[4], y[4];
#pragma unroll
    for (int k = 0; k < 4; k++) where.at(min(i + k, j.w - 1), row, x[k], y[k]);
    const Sample<T> s[4] = {{j, x[0], y[0]}, {j, x[1], y[1]}, {j, x[2], y[2]}, {j, x[3], y[3]}};
    for (int64_t p = 0; p < j.planes; p++) {
      const T *from = in + p * plane;
      T *to = out + p * plane + (int64_t)row * j.w * j.pix;
      if (j.pix == 1) {
        float fill = how.fill[p % how.fills];
        T v[4];
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = s[k].of(j, from, fill);
        aug_store(to, i, j.w, v);
        continue;
      }
      for (int c = 0; c < j.pix; c++) {
        float fill = how.fill[c % how.fills];
#pragma unroll
        for (int k = 0; k < 4; k++)
          if (i + k < j.w) to[(int64_t)(i + k) * j.pix + c] = s[k].of(j, from + c, fill);
      }
    }
  });
}

template <typename T, typename Where>
static __device__ void warp_mask(const aug_job &j, const Where &where, const warp_how &how) {
  int64_t plane = (int64_t)j.w * j.h;
  const T *in = static_cast<const T *>(j.in) + blockIdx.y * plane;
  T *out = static_cast<T *>(j.out) + blockIdx.y * plane;
  warp_each_four(j, [&](int row, int i) {
    T v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      float x, y;
      where.at(min(i + k, j.w - 1), row, x, y);
      v[k] = warp_nearest<T>(j, x, y).of_mask(in, (T)how.mask_fill);
    }
    aug_store(out + (int64_t)row * j.w, i, j.w, v);
  });
}

/* This block's part of its sample and tensor. */
template <typename Where>
static __device__ __forceinline__ void warp_tensor(const aug_job &j, const Where &where, const warp_how &how) {
  if (j.mask) aug_by_size(j.dtype, [&](auto element) { warp_mask<decltype(element)>(j, where, how); });
  else if (how.mode == WARP_NEAREST && j.dtype == SP_U8) warp_image<warp_nearest, uint8_t>(j, where, how);
  else if (how.mode == WARP_NEAREST) warp_image<warp_nearest, float>(j, where, how);
  else if (j.dtype == SP_U8) warp_image<warp_bilinear, uint8_t>(j, where, how);
  else warp_image<warp_bilinear, float>(j, where, how);
}

/* A copy of this block's part. */
static __device__ __forceinline__ void warp_copy(const aug_job &j) {
  aug_by_size(j.dtype, [&](auto element) {
    using T = decltype(element);
    aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
      const T *row = aug_row<T>(j, blockIdx.y, plane, y);
      int n = j.w * j.pix;
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (e + k < n) v[k] = row[e + k];
    });
  });
}

/* A thread for each four pixels, a block at least for each sample and tensor. */
static inline dim3 warp_grid(const aug_jobs *jobs) {
  const aug_job *j = &jobs->job[0];
  int64_t blocks = ((int64_t)j->h * ((j->w + 3) / 4) + WARP_THREADS - 1) / WARP_THREADS;
  return dim3((unsigned)(blocks < 65535 ? blocks : 65535), (unsigned)jobs->n, (unsigned)jobs->count);
}

#endif
