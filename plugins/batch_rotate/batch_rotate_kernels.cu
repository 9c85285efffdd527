/* SPDX-License-Identifier: MIT
 * batch_rotate_kernels.cu - turned images on CUDA: one kernel a batch. */
#include "batch_rotate_kernels.h"

#include "../aug/kit.cuh"

enum { THREADS = 256 };

/* PIX: elements of a pixel that lie side by side; 0: as the job says. A thread walks over its four elements, and looks up
 * a pixel's place once. */
template <int PIX> struct walk {
  int x, c, pix;
  __device__ walk(const aug_job &j, int e) : pix(PIX ? PIX : j.pix) {
    x = e / pix;
    c = e - x * pix;
  }
  __device__ bool next() {
    if (++c < pix) return false;
    c = 0;
    x++;
    return true;
  }
};

template <typename T, int PIX>
static __device__ void take_nearest(const aug_job &j, const rotate_turn &turn, const T (&fill)[4], int fills) {
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *in = aug_row<T>(j, blockIdx.y, plane, 0);
    walk<PIX> at(j, e);
    bool fresh = true, inside = false;
    const T *from = in;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (fresh) {
        int sx = __float2int_rn(rotate_x(&turn, at.x, y)), sy = __float2int_rn(rotate_y(&turn, at.x, y));
        inside = sx >= 0 && sx < j.w && sy >= 0 && sy < j.h;
        from = in + ((int64_t)sy * j.w + sx) * at.pix;
      }
      v[k] = inside ? from[at.c] : fills == 1 ? fill[0] : fill[(plane + at.c) % fills];
      fresh = at.next();
    }
  });
}

/* The order of the sums is that of the cpu. */
template <typename T, int PIX>
static __device__ void take_bilinear(const aug_job &j, const rotate_turn &turn, const rotate_how &how) {
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *in = aug_row<T>(j, blockIdx.y, plane, 0);
    walk<PIX> at(j, e);
    bool fresh = true;
    const T *from[4] = {in, in, in, in};
    float weight[4] = {}, all = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (fresh) {
        float sx = rotate_x(&turn, at.x, y), sy = rotate_y(&turn, at.x, y), left = floorf(sx), top = floorf(sy);
        float fx = __fsub_rn(sx, left), fy = __fsub_rn(sy, top);
        int x = __float2int_rz(left), row = __float2int_rz(top);
#pragma unroll
        for (int c = 0; c < 4; c++) {
          int cx = x + c % 2, cy = row + c / 2;
          bool inside = cx >= 0 && cx < j.w && cy >= 0 && cy < j.h;
          weight[c] = inside ? __fmul_rn(c % 2 ? fx : __fsub_rn(1.0f, fx), c / 2 ? fy : __fsub_rn(1.0f, fy)) : 0.0f;
          from[c] = inside ? in + ((int64_t)cy * j.w + cx) * at.pix : in;
        }
        all = __fadd_rn(__fadd_rn(__fadd_rn(weight[0], weight[1]), weight[2]), weight[3]);
      }
      float fill = how.fills == 1 ? how.fill[0] : how.fill[(plane + at.c) % how.fills];
      float sum = __fmul_rn((float)from[0][at.c], weight[0]);
#pragma unroll
      for (int c = 1; c < 4; c++) sum = __fadd_rn(sum, __fmul_rn((float)from[c][at.c], weight[c]));
      sum = __fadd_rn(__fmul_rn(all, __fsub_rn(sum, fill)), fill);
      v[k] = aug_to(T(), sizeof(T) == 1 ? fminf(fmaxf(sum, 0.0f), 255.0f) : sum);
      fresh = at.next();
    }
  });
}

template <typename T>
static __device__ void turn_image(const aug_job &j, const rotate_turn &turn, const rotate_how &how) {
  if (how.mode == ROTATE_BILINEAR) {
    if (j.pix == 1) take_bilinear<T, 1>(j, turn, how);
    else if (j.pix == 3) take_bilinear<T, 3>(j, turn, how);
    else take_bilinear<T, 0>(j, turn, how);
    return;
  }
  T fill[4];
  for (int k = 0; k < 4; k++) fill[k] = aug_to(T(), k < how.fills ? how.fill[k] : 0.0f);
  if (j.pix == 1) take_nearest<T, 1>(j, turn, fill, how.fills);
  else if (j.pix == 3) take_nearest<T, 3>(j, turn, fill, how.fills);
  else take_nearest<T, 0>(j, turn, fill, how.fills);
}

static __global__ void __launch_bounds__(THREADS) rotate(const aug_jobs jobs, aug_dice dice, const rotate_how how,
                                                         const float *given, float *angles, int64_t *status) {
  __shared__ rotate_turn shared;
  const aug_job &j = jobs.job[blockIdx.z];
  bool first = blockIdx.x == 0 && blockIdx.z == 0;
  if (threadIdx.x == 0) {
    float angle = given ? given[blockIdx.y] : rotate_draw(&dice, blockIdx.y, how.lo, how.hi);
    if (angles && first) angles[blockIdx.y] = angle;
    shared = rotate_turn_of(isfinite(angle) ? angle : 0.0f, j.h, j.w); /* the status tells, behind the call */
  }
  if (first && blockIdx.y == 0)
    aug_judge(status, jobs.n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      value = limit = 0;
      return !isfinite(given[i]);
    });
  __syncthreads();
  const rotate_turn turn = shared;
  if (j.mask)
    aug_by_size(j.dtype, [&](auto t) {
      using T = decltype(t);
      const T fill[4] = {(T)how.mask_fill, (T)how.mask_fill, (T)how.mask_fill, (T)how.mask_fill};
      take_nearest<T, 1>(j, turn, fill, 1);
    });
  else if (j.dtype == SP_U8) turn_image<uint8_t>(j, turn, how);
  else turn_image<float>(j, turn, how);
}

int rotate_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const rotate_how *how, const float *given,
                  float *angles, int64_t *status) {
  SP_LAUNCH(rotate, aug_grid(jobs, THREADS), THREADS, 0, stream, *jobs, *dice, *how, given, angles, status);
  return cudaPeekAtLastError();
}
