/* SPDX-License-Identifier: MIT
 * loss.cuh - how a loss is made on CUDA: a pass over the labels for the number of those that count, then one over the
 * logits. Sums are cut in pieces that depend on the shape alone and added in a fixed order. */
#ifndef SP_PLUGINS_LOSS_CUH
#define SP_PLUGINS_LOSS_CUH

#include "loss.h"

#include "../labels/logits.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int LABEL_BLOCKS = 128; /* at most; each block of the second pass adds up what these found */
constexpr int LOSS_BLOCKS = 1024; /* at most; the last to end adds up what these found */

constexpr unsigned long long NONE = ~0ull;

/* What the pass over the labels learns of one block's share. */
struct label_sum {
  int64_t counted, bad; /* bad: the first position with a label out of range, or INT64_MAX */
  double weight;
};

/* At the beginning of the scratch. */
struct loss_sums {
  unsigned done;                 /* blocks of the second pass that have ended */
  unsigned long long bad_target; /* the first that is outside 0..1, or NONE */
  label_sum labels[LABEL_BLOCKS];
  double loss[LOSS_BLOCKS];
};

/* The job and what was made of it. */
struct loss_work {
  loss_job j;
  loss_sums *s;
  const float *class_weights; /* NULL: all 1 */
  int label_blocks, loss_blocks;
};

static inline size_t loss_sums_bytes(void) { return (sizeof(loss_sums) + 15) / 16 * 16; }

static inline int blocks_of(int64_t items, int per_block, int most) {
  int64_t blocks = (items + per_block - 1) / per_block;
  return blocks < 1 ? 1 : blocks < most ? (int)blocks : most;
}

/* As the CPU's: nothing below -87. */
static __device__ inline float exp_neg(float d) {
  float e = expf(d); /* in any case, so that no branch keeps the next one waiting */
  return d < -87.0f ? 0.0f : e;
}

/* ---- sums over a warp and a block, always in the same order; the result is in lane or thread 0 ---- */
static __device__ inline double warp_sum(double v) {
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
  return v;
}

static __device__ inline double block_sum(double v) {
  __shared__ double part[WARPS];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) v = warp_sum(threadIdx.x < WARPS ? part[threadIdx.x] : 0.0);
  __syncthreads();
  return v;
}

static __device__ inline label_sum warp_labels(label_sum v) {
  for (int d = 16; d; d >>= 1) {
    int64_t bad = __shfl_down_sync(0xffffffffu, v.bad, d);
    v.counted += __shfl_down_sync(0xffffffffu, v.counted, d);
    v.weight += __shfl_down_sync(0xffffffffu, v.weight, d);
    if (bad < v.bad) v.bad = bad;
  }
  return v;
}

/* ---- the pass over the labels: a thread takes 16 bytes of them at a time ---- */
template <typename T> static __global__ void __launch_bounds__(THREADS) sum_labels(const loss_work w, int wide) {
  constexpr int EACH = 16 / sizeof(T);
  __shared__ label_sum part[WARPS];
  const loss_job &j = w.j;
  const T *labels = (const T *)j.labels;
  int64_t all = labels ? j.shape.n * j.shape.px : 0, step = (int64_t)w.label_blocks * THREADS * EACH;
  label_sum s = {0, INT64_MAX, 0};
  for (int64_t from = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * EACH; from < all; from += step) {
    int n = all - from < EACH ? (int)(all - from) : EACH;
    T some[EACH];
    if (wide && n == EACH) {
      uint4 bytes = *(const uint4 *)(labels + from);
      memcpy(some, &bytes, sizeof bytes);
    } else {
#pragma unroll
      for (int i = 0; i < EACH; i++) some[i] = i < n ? labels[from + i] : 0;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int64_t y = some[i];
      if (i >= n || y == j.ignore) continue;
      if (y < 0 || y >= j.values) {
        if (from + i < s.bad) s.bad = from + i;
        continue;
      }
      float weight = w.class_weights ? w.class_weights[y] : 1.0f;
      s.counted += weight != 0;
      if (w.class_weights) s.weight += weight;
    }
  }
  if (!w.class_weights) s.weight = (double)s.counted;
  s = warp_labels(s);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = warp_labels(threadIdx.x < WARPS ? part[threadIdx.x] : label_sum{0, INT64_MAX, 0});
    if (!labels && blockIdx.x == 0) s.counted = loss_numbers(&j, j.shape.n), s.weight = (double)s.counted;
    if (threadIdx.x == 0) w.s->labels[blockIdx.x] = s;
    if (threadIdx.x == 0 && blockIdx.x == 0) w.s->done = 0, w.s->bad_target = NONE;
  }
}

template <typename T> static void launch_labels(void *stream, loss_work *w) {
  constexpr int EACH = 16 / sizeof(T);
  w->label_blocks = blocks_of(w->j.shape.n * w->j.shape.px, THREADS * EACH, LABEL_BLOCKS);
  SP_LAUNCH(sum_labels<T>, w->label_blocks, THREADS, 0, stream, *w, (uintptr_t)w->j.labels % sizeof(uint4) == 0);
}

/* The same of numbers: those count that are not NaN. */
static __global__ void __launch_bounds__(THREADS) sum_known(const loss_work w) {
  __shared__ label_sum part[WARPS];
  const loss_job &j = w.j;
  int64_t all = j.shape.n * j.shape.px * j.shape.classes, step = (int64_t)w.label_blocks * THREADS;
  label_sum s = {0, INT64_MAX, 0};
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += step)
    s.counted += j.known[i] == j.known[i];
  s.weight = (double)s.counted;
  s = warp_labels(s);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  s = warp_labels(threadIdx.x < WARPS ? part[threadIdx.x] : label_sum{0, INT64_MAX, 0});
  if (threadIdx.x == 0) w.s->labels[blockIdx.x] = s;
  if (threadIdx.x == 0 && blockIdx.x == 0) w.s->done = 0;
}

static inline void launch_known(void *stream, loss_work *w) {
  w->label_blocks = blocks_of(w->j.shape.n * w->j.shape.px * w->j.shape.classes, 4 * THREADS, LABEL_BLOCKS);
  SP_LAUNCH(sum_known, w->label_blocks, THREADS, 0, stream, *w);
}

/* The first pass; it says how many blocks it had. Where there are no labels each number counts. */
static inline void sum_all_labels(void *stream, loss_work *w) {
  if (w->j.known) launch_known(stream, w);
  else if (w->j.label_dtype == SP_U8) launch_labels<uint8_t>(stream, w);
  else if (w->j.label_dtype == SP_I32) launch_labels<int32_t>(stream, w);
  else launch_labels<int64_t>(stream, w);
}

/* Of all blocks, in lane 0 of the calling warp. */
static __device__ inline label_sum all_labels(const loss_work &w) {
  label_sum s = {0, INT64_MAX, 0};
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < w.label_blocks; i += 32) {
    const label_sum &b = w.s->labels[i];
    s.counted += b.counted;
    s.weight += b.weight;
    if (b.bad < s.bad) s.bad = b.bad;
  }
  return warp_labels(s);
}

/* What a mean over all of a full batch is over, where the step has several shards; else what this one is. */
static __device__ inline double full_weight(const loss_job &j, double weight) {
  return !j.step->batch ? weight : (double)loss_numbers(&j, j.step->batch);
}

/* What the gradient of a mean is multiplied by. Every thread of the block calls it and gets it. */
static __device__ inline float gradient_scale(const loss_work &w) {
  __shared__ float scale;
  if (threadIdx.x < 32) {
    label_sum s = all_labels(w);
    if (threadIdx.x == 0)
      scale = s.counted ? (float)(w.j.weight / full_weight(w.j, s.weight) * (double)w.j.step->loss_scale) : 0.0f;
  }
  __syncthreads();
  return scale;
}

/* What comes out, by one thread; `mean` is the loss times its weight. */
static __device__ inline void loss_result(const loss_work &w, const label_sum &s, float mean) {
  const loss_job &j = w.j;
  *j.loss = mean;
  *j.valid = s.counted;
  if (j.total) *j.total = j.step->batch ? s.weight / full_weight(j, s.weight) : s.weight;
  int64_t bad = s.bad == INT64_MAX ? -1 : s.bad;
  if (j.shares) {
    unsigned long long target = *(const volatile unsigned long long *)&w.s->bad_target;
    target_status(&j, bad = target == NONE ? -1 : (int64_t)target);
  } else label_status(j.status, LOSS_BAD_LABEL, j.labels, j.label_dtype, bad, j.shape.px, j.ids, j.values - 1);
  if (bad < 0 && j.stop && !(fabsf(mean) < INFINITY)) j.status[0] = LOSS_NOT_FINITE;
}

/* Notes the target at `at`, where it is outside 0..1; before finish(). */
static __device__ inline void judge_target(const loss_work &w, int64_t at, float target) {
  if (loss_is_bad(target)) atomicMin(&w.s->bad_target, (unsigned long long)at);
}

/* The block that ends last sums up. */
static __device__ inline void finish(const loss_work &w, double loss) {
  __shared__ bool last;
  const loss_job &j = w.j;
  if (j.shares) __threadfence();
  loss = block_sum(loss);
  if (threadIdx.x == 0) {
    w.s->loss[blockIdx.x] = loss;
    __threadfence();
    last = atomicAdd(&w.s->done, 1u) == (unsigned)w.loss_blocks - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  const volatile double *part = w.s->loss;
  loss = 0;
  for (int i = threadIdx.x; i < w.loss_blocks; i += THREADS) loss += part[i];
  loss = block_sum(loss);
  if (threadIdx.x >= 32) return;
  label_sum s = all_labels(w);
  if (threadIdx.x) return;
  loss_result(w, s, s.counted ? (float)(j.weight * (loss / s.weight)) : 0.0f);
}

#endif
