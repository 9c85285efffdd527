/* SPDX-License-Identifier: MIT
 * mixes_kernels.cu - images and labels mixed on CUDA: one kernel says how, one mixes labels, one images. */
#include "mixes_kernels.h"

#include "../../kits/aug/kit.cuh"

enum { THREADS = 256 };

/* The first of n samples for which bad() holds, or -1, in thread 0; all threads of a block call it. */
template <typename Bad> static __device__ int64_t first_of(int64_t n, Bad bad) {
  __shared__ unsigned long long first;
  if (threadIdx.x == 0) first = ~0ull;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < n; i += THREADS)
    if (bad(i)) {
      atomicMin(&first, (unsigned long long)i);
      break;
    }
  __syncthreads();
  int64_t found = first == ~0ull ? -1 : (int64_t)first;
  __syncthreads();
  return found;
}

/* A thread a sample. */
static __global__ void __launch_bounds__(THREADS)
    draw(int64_t n, aug_dice dice, mixes_range range, const mixes_labels labels, const mixes_row *given,
         mixes_row *told, mixes_row *rows, int64_t *status) {
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  float number;
  if (blockIdx.x == 0) {
    int64_t label = first_of(n, [&](int64_t k) {
      int64_t value;
      return mixes_bad_label(&labels, k, &value) != 0;
    });
    int64_t row = first_of(given ? n : 0, [&](int64_t k) {
      float value;
      return mixes_bad(&range, &given[k], &value) != 0;
    });
    if (threadIdx.x == 0) mixes_tell(status, &labels, &range, given, dice.ids, label, row);
  }
  if (i >= n) return;
  mixes_row r = given ? given[i] : mixes_draw(&dice, i, &range);
  if (told) told[i] = r;
  if (given && mixes_bad(&range, &r, &number)) r = {1, 0, 0, 0, 0};
  rows[i] = r;
}

static __global__ void __launch_bounds__(THREADS) mix_labels(const mixes_labels labels, const mixes_row *rows) {
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < labels.n) mixes_mix_labels(&labels, &rows[i], i);
}

/* mixed(x, other): what becomes of an element outside of the box. */
template <typename T, typename Mixed>
static __device__ void mix_tensor(const aug_job &j, const mixes_row &r, int64_t other, Mixed mixed) {
  int n = j.w * j.pix, from = (int)r.left * j.pix, to = from + (int)r.w * j.pix;
  int top = (int)r.top, bottom = top + (int)r.h;
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *x = aug_row<T>(j, blockIdx.y, plane, y), *o = aug_row<T>(j, other, plane, y);
    bool in_box = y >= top && y < bottom;
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (e + k < n) v[k] = in_box && e + k >= from && e + k < to ? o[e + k] : mixed(x[e + k], &o[e + k]);
  });
}

template <typename T> static __device__ void mix_image(const aug_job &j, const mixes_row &r, int64_t other) {
  float rest = (float)(1 - (double)r.share);
  if (r.share == 1.0f) mix_tensor<T>(j, r, other, [](T x, const T *) { return x; });
  else
    mix_tensor<T>(j, r, other,
                  [&](T x, const T *o) { return aug_to(T(), mixes_value((float)x, (float)*o, r.share, rest)); });
}

static __global__ void __launch_bounds__(THREADS) mix(const aug_jobs jobs, const mixes_row *rows) {
  const aug_job &j = jobs.job[blockIdx.z];
  mixes_row r = rows[blockIdx.y];
  int64_t other = mixes_other(blockIdx.y, jobs.n);
  if (j.mask)
    aug_by_size(j.dtype, [&](auto element) {
      using T = decltype(element);
      mix_tensor<T>(j, r, other, [](T x, const T *) { return x; });
    });
  else if (j.dtype == SP_U8) mix_image<uint8_t>(j, r, other);
  else mix_image<float>(j, r, other);
}

int mixes_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const mixes_range *range,
                 const mixes_labels *labels, const mixes_row *given, mixes_row *told, mixes_row *rows,
                 int64_t *status) {
  dim3 samples((unsigned)((jobs->n + THREADS - 1) / THREADS));
  SP_LAUNCH(draw, samples, THREADS, 0, stream, jobs->n, *dice, *range, *labels, given, told, rows, status);
  if (labels->mixed || labels->main) SP_LAUNCH(mix_labels, samples, THREADS, 0, stream, *labels, rows);
  SP_LAUNCH(mix, aug_grid(jobs, THREADS), THREADS, 0, stream, *jobs, rows);
  return cudaPeekAtLastError();
}
