/* SPDX-License-Identifier: MIT
 * look.cuh - what a look at a whole channel finds on CUDA, a block for each.
 */
#ifndef TONES_LOOK_CUH
#define TONES_LOOK_CUH

#include "change.cuh"

enum { LOOKERS = 512, COPIES = 8 };

/* Calls take(v) for this thread's elements of `pixels` that are `apart` from each other. */
template <typename T, typename Take>
static __device__ __forceinline__ void each_of_channel(const T *in, int64_t pixels, int apart, Take take) {
  constexpr int N = WORD / (int)sizeof(T);
  if (apart == 1 && pixels % N == 0 && reinterpret_cast<uintptr_t>(in) % WORD == 0) {
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < pixels / N; i += LOOKERS) {
      tones_word<T> w = *reinterpret_cast<const tones_word<T> *>(in + i * N);
#pragma unroll
      for (int k = 0; k < N; k++) take(w.v[k]);
    }
    return;
  }
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < pixels; i += LOOKERS) take(in[i * apart]);
}

/* equalize, as point_equalize has it: from counts of all 256 bytes to what becomes of each. All threads call it. */
static __device__ __forceinline__ void equalized(uint32_t *count, uint32_t *sums, uint32_t *last, uint8_t *table) {
  int i = (int)threadIdx.x;
  uint32_t own = i < 256 ? count[i] : 0, sum = own;
  if (i == 0) *last = 0;
  __syncthreads();
  if (own) atomicMax(last, (uint32_t)i);
  for (int by = 1; by < 256; by *= 2) { /* sums up to each byte */
    if (i < 256) sums[i] = sum;
    __syncthreads();
    if (i < 256 && i >= by) sum += sums[i - by];
    __syncthreads();
  }
  if (i == 255) sums[0] = sum;
  __syncthreads();
  if (i >= 256) return;
  uint32_t step = (sums[0] - count[*last]) / 255;
  uint32_t v = step ? (step / 2 + (sum - own)) / step : (uint32_t)i;
  table[i] = (uint8_t)(v < 255 ? v : 255);
}

/* The channel of blockIdx.x. */
template <typename T> static __device__ void find(const aug_job &j, int op, float max, tones_look *look) {
  __shared__ uint32_t count[COPIES * 256], lo, hi;
  __shared__ unsigned long long sum;
  int64_t pixels = (int64_t)j.h * j.w, channel = blockIdx.x;
  const T *in = aug_row<T>(j, blockIdx.y, 0, 0), *own = in + (j.pix == 1 ? channel * pixels : channel);
  if (op == TONES_EQUALIZE)
    for (int i = (int)threadIdx.x; i < COPIES * 256; i += LOOKERS) count[i] = 0;
  if (threadIdx.x == 0) lo = ~0u, hi = 0, sum = 0;
  __syncthreads();
  if (op == TONES_AUTOCONTRAST) {
    limits seen = {(float)own[0], (float)own[0]};
    each_of_channel(own, pixels, j.pix, [&](T v) { seen.take((float)v); });
    for (int lanes = 16; lanes; lanes /= 2) {
      seen.take(__shfl_xor_sync(0xffffffffu, seen.lo, lanes));
      seen.take(__shfl_xor_sync(0xffffffffu, seen.hi, lanes));
    }
    if (threadIdx.x % 32 == 0) atomicMin(&lo, ordered(seen.lo)), atomicMax(&hi, ordered(seen.hi));
  } else if (op == TONES_EQUALIZE) {
    uint32_t *mine = count + threadIdx.x / 32 % COPIES * 256;
    each_of_channel(own, pixels, j.pix, [&](T v) {
      atomicAdd(&mine[sizeof(T) == 1 ? (int32_t)v : point_byte((float)v, max)], 1u);
    });
    __syncthreads();
    if (threadIdx.x < 256)
      for (int i = 1; i < COPIES; i++) count[threadIdx.x] += count[i * 256 + threadIdx.x];
    __syncthreads();
    equalized(count, count + 256, &lo, look->table);
  } else if (channel == 0) {
    int64_t mine = 0, apart = j.pix == 1 ? pixels : 1;
    bool three = j.planes * j.pix == 3;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < pixels; i += LOOKERS) {
      const T *p = in + i * j.pix;
      float grey = (float)p[0];
      if (three) grey = pixel_grey(grey, (float)p[apart], (float)p[2 * apart], sizeof(T) == 1);
      mine += sizeof(T) == 1 ? (int64_t)grey : point_grey_sum(grey, max);
    }
    atomicAdd(&sum, (unsigned long long)mine);
  }
  __syncthreads();
  if (threadIdx.x) return;
  if (op == TONES_AUTOCONTRAST) {
    look->lo = __fadd_rn(unordered(lo), 0.0f);
    look->hi = __fadd_rn(unordered(hi), 0.0f);
  } else if (op == TONES_CONTRAST && channel == 0) {
    if (sizeof(T) == 1) look->mean = (float)((double)(int64_t)sum / (double)pixels);
    else look->mean = point_grey_mean((int64_t)sum, pixels, max);
  }
}

#endif
