/* SPDX-License-Identifier: MIT
 * work.cuh - what a block knows of its sample, and what the kernels that change colours share.
 *
 * Colours know no rows: an image is so many pixels, and a thread works on four that lie side by side, or, where an
 * image cannot be moved by fours, on one.
 */
#ifndef COLOR_JITTER_WORK_CUH
#define COLOR_JITTER_WORK_CUH

#include "../../kits/aug/kit.cuh"
#include "steps.cuh"

/* What is done to a sample, and to a tensor of it. */
struct __align__(16) work {
  jitter_factors factors;
  uint32_t steps;
  int mean_at;
};

static __device__ void work_of(const aug_job &j, const aug_dice &dice, const jitter_ranges &ranges, const float *given,
                               work &w) {
  if (given) jitter_take(given + (int64_t)blockIdx.y * JITTER_COLUMNS, &w.factors);
  else jitter_draw(&dice, blockIdx.y, &ranges, &w.factors);
  w.steps = jitter_steps(&w.factors, j.planes * j.pix);
  w.mean_at = jitter_mean_at(w.steps);
}

static_assert(sizeof(work) == JITTER_KEPT * sizeof(double), "as the plan has it");

/* What comes before a sample's mean and what behind it, where there is one; its first step is contrast then. */
struct plan {
  step before[JITTER_OPS + 1], after[JITTER_OPS + 1];
};

static __device__ void plan_of(const work &w, plan &p) {
  list_steps(w.factors, w.steps, 0, w.mean_at, p.before);
  list_steps(w.factors, w.steps, w.mean_at < 0 ? 0 : w.mean_at, JITTER_OPS, p.after);
}

/* Whether quads of elements may be moved at once. */
static __device__ __forceinline__ bool by_quads(const aug_job &j, size_t bytes) {
  return (int64_t)j.h * j.w % 4 == 0 &&
         (reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out)) % bytes == 0;
}

/* Calls run(T(), channels, pixels at once, interleaved) with constants. */
template <typename T, typename Run> static __device__ __forceinline__ void by_layout(const aug_job &j, Run run) {
  std::integral_constant<int, 1> one;
  std::integral_constant<int, 3> three;
  std::integral_constant<int, 4> four;
  bool quads = by_quads(j, 4 * sizeof(T));
  if (j.planes * j.pix == 1) {
    if (quads) run(T(), one, four, std::false_type());
    else run(T(), one, one, std::false_type());
  } else if (j.pix == 1) {
    if (quads) run(T(), three, four, std::false_type());
    else run(T(), three, one, std::false_type());
  } else {
    if (quads) run(T(), three, four, std::true_type());
    else run(T(), three, one, std::true_type());
  }
}

template <typename Run> static __device__ __forceinline__ void by_kind(const aug_job &j, Run run) {
  if (j.dtype == SP_U8) by_layout<uint8_t>(j, run);
  else by_layout<float>(j, run);
}

/* The sum of a value of each lane, in an order of its own. */
static __device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
  for (int lanes = 16; lanes; lanes /= 2) v = __dadd_rn(v, __shfl_xor_sync(0xffffffffu, v, lanes));
  return v;
}

/* Where in an array what belongs to the sample and tensor of this block begins, of so many elements each. */
static __device__ __forceinline__ int64_t own(int64_t of_each) {
  return ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * of_each;
}

/* Puts down what was drawn, by the first thread of the first block of each sample, and what is wrong with what was
 * given, by all threads of the very first block. */
static __device__ __forceinline__ void report(const aug_jobs &jobs, const aug_dice &dice, const float *given,
                                              const work &w, float *factors, int64_t *status) {
  if (blockIdx.x || blockIdx.z) return;
  if (factors && threadIdx.x == 0) {
    int64_t at = (int64_t)blockIdx.y * JITTER_COLUMNS;
    if (!given) jitter_give(&w.factors, factors + at);
    for (int i = 0; given && i < JITTER_COLUMNS; i++) factors[at + i] = given[at + i];
  }
  if (blockIdx.y == 0)
    aug_judge(status, jobs.n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      value = jitter_bad(given + i * JITTER_COLUMNS);
      limit = JITTER_COLUMNS;
      return value != 0;
    });
}

template <int N> static __device__ void copy_mask(const aug_job &j) {
  aug_by_size(j.dtype, [&](auto t) {
    typedef decltype(t) T;
    const T *in = static_cast<const T *>(j.in) + (int64_t)blockIdx.y * j.h * j.w;
    T *out = static_cast<T *>(j.out) + (int64_t)blockIdx.y * j.h * j.w;
    bool whole = by_quads(j, sizeof(aug_quad<T>));
    int64_t pixels = (int64_t)j.h * j.w, step = 4 * (int64_t)gridDim.x * N;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * N + threadIdx.x); i < pixels; i += step)
      if (whole) *reinterpret_cast<aug_quad<T> *>(out + i) = *reinterpret_cast<const aug_quad<T> *>(in + i);
      else
        for (int64_t e = i; e < i + 4 && e < pixels; e++) out[e] = in[e];
  });
}

#endif
