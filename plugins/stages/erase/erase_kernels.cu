/* SPDX-License-Identifier: MIT
 * erase_kernels.cu - rectangles painted over on CUDA: one kernel says where they are, one copies what is around. */
#include "erase_kernels.h"

#include "../../kits/aug/kit.cuh"

enum { THREADS = 256 };

/* A thread a sample. */
static __global__ void __launch_bounds__(THREADS)
    draw(int64_t n, aug_dice dice, erase_range range, const erase_box *given, erase_box *told, erase_box *boxes,
         int64_t *status) {
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, value, limit;
  if (blockIdx.x == 0)
    aug_judge(status, n, dice.ids, given != nullptr,
              [&](int64_t k, int64_t &bad, int64_t &bound) { return erase_bad(&range, &given[k], &bad, &bound) != 0; });
  if (i >= n) return;
  erase_box b = given ? given[i] : erase_draw(&dice, i, &range);
  if (told) told[i] = b;
  if (given && erase_bad(&range, &b, &value, &limit)) b = {0, 0, 0, 0};
  boxes[i] = b;
}

/* Noise of element x of a channel's row: its value of four that are drawn together. */
static __device__ __forceinline__ float noise_at(const aug_dice &dice, int64_t channel, int y, int x, int w) {
  sp_rng4 r = erase_words(&dice, blockIdx.y, channel, y, x / 4, w);
  float one, other;
  aug_normal(r.v[x & 2], r.v[(x & 2) + 1], &one, &other);
  return x & 1 ? other : one;
}

static __device__ __forceinline__ uint8_t within(uint8_t, float v) {
  v = v > 0.0f ? v : 0.0f;
  return aug_to(uint8_t(), v < 255.0f ? v : 255.0f);
}
static __device__ __forceinline__ float within(float, float v) { return v; }

/* paint(plane, y, e): what element e of a row becomes in the box. */
template <typename T, typename Paint> static __device__ void move(const aug_job &j, const erase_box &b, Paint paint) {
  int n = j.w * j.pix, from = b.left * j.pix, to = (b.left + b.w) * j.pix;
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *row = aug_row<T>(j, blockIdx.y, plane, y);
    bool in_box = y >= b.top && y < b.top + b.h;
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (e + k < n) v[k] = in_box && e + k >= from && e + k < to ? paint(plane, y, e + k) : row[e + k];
  });
}

template <typename T>
static __device__ void move_image(const aug_job &j, const erase_box &b, const aug_dice &dice, const erase_how &how) {
  move<T>(j, b, [&](int64_t plane, int y, int e) {
    int x = e / j.pix;
    int64_t channel = j.pix > 1 ? e - x * j.pix : plane;
    float v = how.value[channel % how.values];
    if (how.noise != 0.0f) v = __fadd_rn(v, __fmul_rn(noise_at(dice, channel, y, x, j.w), how.noise));
    return within(T(), v);
  });
}

static __global__ void __launch_bounds__(THREADS)
    erase(const aug_jobs jobs, aug_dice dice, const erase_how how, const erase_box *boxes) {
  const aug_job &j = jobs.job[blockIdx.z];
  erase_box b = boxes[blockIdx.y];
  if (j.mask && !how.masks) b.h = 0;
  if (j.mask)
    aug_by_size(j.dtype, [&](auto element) {
      using T = decltype(element);
      move<T>(j, b, [&](int64_t, int, int) { return (T)how.mask_fill; });
    });
  else if (j.dtype == SP_U8) move_image<uint8_t>(j, b, dice, how);
  else move_image<float>(j, b, dice, how);
}

int erase_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const erase_range *range,
                 const erase_how *how, const erase_box *given, erase_box *told, erase_box *boxes, int64_t *status) {
  SP_LAUNCH(draw, dim3((unsigned)((jobs->n + THREADS - 1) / THREADS)), THREADS, 0, stream, jobs->n, *dice, *range,
            given, told, boxes, status);
  SP_LAUNCH(erase, aug_grid(jobs, THREADS), THREADS, 0, stream, *jobs, *dice, *how, boxes);
  return cudaPeekAtLastError();
}
