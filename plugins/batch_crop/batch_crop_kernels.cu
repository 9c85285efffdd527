/* SPDX-License-Identifier: MIT
 * batch_crop_kernels.cu - windows out of images on CUDA: one kernel a batch. */
#include "batch_crop_kernels.h"

#include "../aug/kit.cuh"

enum { THREADS = 256 };

struct box {
  int top, left;
};

static __device__ box box_of(const aug_dice &dice, const int32_t *given, int64_t sample, int high, int wide) {
  box b;
  if (given) b = {given[2 * sample], given[2 * sample + 1]};
  else crop_draw(&dice, sample, high, wide, &b.top, &b.left);
  return b;
}

/* The order of the sum is that of the cpu. */
template <typename T> static __device__ void mean_window(const aug_job &j, box b) {
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *upper = aug_row<T>(j, blockIdx.y, plane, b.top + y);
    const T *lower = b.top + y + 1 < j.h ? upper + (int64_t)j.w * j.pix : upper;
    int at = b.left * j.pix + e, end = j.w * j.pix;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int here = at + k, right = here + j.pix < end ? here + j.pix : here;
      if (e + k >= j.out_w * j.pix) continue;
      float sum = __fadd_rn(__fadd_rn(__fadd_rn((float)upper[here], (float)upper[right]), (float)lower[here]),
                            (float)lower[right]);
      v[k] = aug_to(T(), sum / 4);
    }
  });
}

template <typename T> static __device__ void copy_window(const aug_job &j, box b) {
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *from = aug_row<T>(j, blockIdx.y, plane, b.top + y) + (int64_t)b.left * j.pix + e;
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (e + k < j.out_w * j.pix) v[k] = from[k];
  });
}

static __global__ void __launch_bounds__(THREADS)
    crop(const aug_jobs jobs, aug_dice dice, const int32_t *given, int32_t *boxes, int64_t *status, int mode) {
  const aug_job &j = jobs.job[blockIdx.z];
  int high = j.h - j.out_h, wide = j.w - j.out_w;
  box b = box_of(dice, given, blockIdx.y, high, wide);
  bool first = blockIdx.x == 0 && blockIdx.z == 0;
  if (boxes && first && threadIdx.x == 0) {
    boxes[2 * blockIdx.y] = b.top;
    boxes[2 * blockIdx.y + 1] = b.left;
  }
  if (first && blockIdx.y == 0)
    aug_judge(status, jobs.n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      int top = given[2 * i], left = given[2 * i + 1];
      bool above = top < 0 || top > high;
      value = above ? top : left;
      limit = above ? high : wide;
      return above || left < 0 || left > wide;
    });
  b.top = max(0, min(b.top, high)); /* what the status tells must not be read outside before */
  b.left = max(0, min(b.left, wide));
  if (j.mask || mode == CROP_EXACT) aug_by_size(j.dtype, [&](auto t) { copy_window<decltype(t)>(j, b); });
  else if (j.dtype == SP_U8) mean_window<uint8_t>(j, b);
  else mean_window<float>(j, b);
}

int crop_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const int32_t *given, int32_t *boxes,
                int64_t *status, int mode) {
  SP_LAUNCH(crop, aug_grid(jobs, THREADS), THREADS, 0, stream, *jobs, *dice, given, boxes, status, mode);
  return cudaPeekAtLastError();
}
