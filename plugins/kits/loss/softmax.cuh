/* SPDX-License-Identifier: MIT
 * softmax.cuh - the softmax of each position on CUDA, whatever the order of its logits. */
#ifndef SP_PLUGINS_SOFTMAX_CUH
#define SP_PLUGINS_SOFTMAX_CUH

#include "loss.cuh"

static __device__ int64_t label_of(const loss_job &j, int64_t p) {
  int64_t y = label_at(j.labels, j.label_dtype, p);
  return y != j.ignore && y >= 0 && y < j.values ? y : -1;
}

static __device__ float probability(float x, float top, float inv) { return __fmul_rn(exp_neg(x - top), inv); }

/* The logits of a position: up to MOST, read at once into registers, or any number (0), each read when asked for. */
template <int MOST> struct some_logits {
  float v[MOST];
  __device__ some_logits(const float *x, int64_t stride, int64_t classes) {
#pragma unroll
    for (int c = 0; c < MOST; c++) v[c] = c < classes ? x[c * stride] : 0.0f;
  }
  __device__ float at(int64_t c) const { return v[c]; }
};
template <> struct some_logits<0> {
  const float *x;
  int64_t stride;
  __device__ some_logits(const float *from, int64_t apart, int64_t) : x(from), stride(apart) {}
  __device__ float at(int64_t c) const { return x[c * stride]; }
};

/* Calls run(c) for each class, in order. */
template <int MOST, typename Run> static __device__ __forceinline__ void each_class(int64_t classes, Run run) {
  if constexpr (MOST > 0) {
#pragma unroll
    for (int c = 0; c < MOST; c++)
      if (c < classes) run(c);
  } else {
    for (int64_t c = 0; c < classes; c++) run(c);
  }
}

/* Of each position the largest logit, and 1 / the sum of exponentials. */
template <int MOST>
static __global__ void __launch_bounds__(THREADS) softmaxes(const loss_job j, float *all_top, float *all_inv) {
  const logit_shape &s = j.shape;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < s.n * s.px; p += (int64_t)gridDim.x * THREADS) {
    int64_t stride, first = logits_at(s, p, &stride);
    some_logits<MOST> x(j.x + first, stride, s.classes);
    float top = x.at(0);
    double sum = 0;
    each_class<MOST>(s.classes, [&](int64_t c) { top = x.at(c) > top ? x.at(c) : top; });
    each_class<MOST>(s.classes, [&](int64_t c) { sum += exp_neg(x.at(c) - top); });
    all_top[p] = top;
    all_inv[p] = (float)(1.0 / sum);
  }
}

#endif
