/* SPDX-License-Identifier: MIT
 * dice_kernels.cu - the Dice loss on CUDA: the softmax of each position, the sums of each class, the slope of each
 * class, the gradient. */
#include "dice_kernels.h"

#include "../../kits/loss/loss.cuh"
#include "dice_class.h"

constexpr int SUM_BLOCKS = 64;       /* at most, of each class */
constexpr int AT_ONCE = 4;           /* positions whose numbers a thread has on their way */
constexpr int MOST_CLASSES = 0x4000; /* beside one another in a grid; more are done one after another */

struct dice_work : loss_work {
  double smooth, eps;
  int sum_blocks;
  int64_t line;          /* positions whose logits of a class lie side by side */
  int64_t far_at, far_x; /* from a thread's position of sum_classes to its next one: in a line, and among the logits */
  float *top, *inv;      /* of each position: the largest logit, 1 / the sum of exponentials */
  dice_sums *sums;       /* sum_blocks per class */
  dice_slope *slope;     /* of each class, with all that the gradient is multiplied by */
};

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

template <int MOST> static __global__ void __launch_bounds__(THREADS) softmaxes(const dice_work w) {
  const logit_shape &s = w.j.shape;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < s.n * s.px; p += (int64_t)gridDim.x * THREADS) {
    int64_t stride, first = logits_at(s, p, &stride);
    some_logits<MOST> x(w.j.x + first, stride, s.classes);
    float top = x.at(0);
    double sum = 0;
    each_class<MOST>(s.classes, [&](int64_t c) { top = x.at(c) > top ? x.at(c) : top; });
    each_class<MOST>(s.classes, [&](int64_t c) { sum += exp_neg(x.at(c) - top); });
    w.top[p] = top;
    w.inv[p] = (float)(1.0 / sum);
  }
}

/* A block has a class and every sum_blocks-th piece of the positions. A thread reads several before it adds them. */
static __global__ void __launch_bounds__(THREADS) sum_classes(const dice_work w) {
  const logit_shape &s = w.j.shape;
  int64_t all = s.n * s.px;
  for (int64_t c = blockIdx.y; c < s.classes; c += gridDim.y) {
    dice_sums part = {0, 0, 0};
    int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x, at = p % w.line;
    const float *x = w.j.x + (p / w.line * s.classes + c) * w.line + at;
    while (p < all) {
      int64_t label[AT_ONCE];
      float logit[AT_ONCE], top[AT_ONCE], inv[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) {
        label[k] = p < all ? label_of(w.j, p) : -1;
        logit[k] = p < all ? *x : 0.0f;
        top[k] = p < all ? w.top[p] : 0.0f;
        inv[k] = p < all ? w.inv[p] : 0.0f;
        p += (int64_t)w.sum_blocks * THREADS, at += w.far_at, x += w.far_x;
        if (at >= w.line) at -= w.line, x += (s.classes - 1) * w.line;
      }
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) {
        if (label[k] < 0) continue;
        float v = probability(logit[k], top[k], inv[k]);
        part.said += v;
        if (label[k] == c) part.both += v, part.truth += 1;
      }
    }
    part = {block_sum(part.both), block_sum(part.said), block_sum(part.truth)};
    if (threadIdx.x == 0) w.sums[c * w.sum_blocks + blockIdx.x] = part;
  }
}

/* One block: the mean over all classes, those without labels too. */
static __global__ void __launch_bounds__(THREADS) sum_up(const dice_work w) {
  int64_t classes = w.j.shape.classes;
  double loss = 0, scale = w.j.weight / (double)classes * (double)w.j.step->loss_scale;
  for (int64_t c = threadIdx.x; c < classes; c += THREADS) {
    dice_sums all = {0, 0, 0};
    dice_slope slope;
    for (int i = 0; i < w.sum_blocks; i++) {
      const dice_sums &s = w.sums[c * w.sum_blocks + i];
      all.both += s.both, all.said += s.said, all.truth += s.truth;
    }
    loss += dice_class(&all, w.smooth, w.eps, &slope);
    w.slope[c] = {slope.own * scale, slope.all * scale};
  }
  loss = block_sum(loss);
  if (threadIdx.x >= 32) return;
  label_sum s = all_labels(w);
  if (threadIdx.x) return;
  loss_result(w, s, (float)(w.j.weight * (loss / (double)classes)));
  if (w.j.total) *w.j.total = s.counted ? 1 : 0; /* each batch has a score of its own */
}

/* Through the softmax: p[c] * (slope of c - mean of the slopes under p). */
template <int MOST> static __global__ void __launch_bounds__(THREADS) gradients(const dice_work w) {
  const logit_shape &s = w.j.shape;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < s.n * s.px; p += (int64_t)gridDim.x * THREADS) {
    int64_t stride, first = logits_at(s, p, &stride), label = label_of(w.j, p);
    float top = w.top[p], inv = w.inv[p], *g = w.j.g + first;
    some_logits<MOST> x(w.j.x + first, stride, s.classes);
    double mean = 0;
    if constexpr (MOST > 0) each_class<MOST>(s.classes, [&](int64_t c) { x.v[c] = probability(x.v[c], top, inv); });
    auto said = [&](int64_t c) { return MOST > 0 ? x.at(c) : probability(x.at(c), top, inv); };
    each_class<MOST>(label >= 0 ? s.classes : 0, [&](int64_t c) {
      dice_slope d = w.slope[c];
      mean += said(c) * (c == label ? d.all + d.own : d.all);
    });
    each_class<MOST>(s.classes, [&](int64_t c) {
      dice_slope d = w.slope[c];
      double v = said(c) * ((c == label ? d.all + d.own : d.all) - mean);
      float to = label >= 0 ? (float)v : 0.0f;
      g[c * stride] = w.j.acc ? g[c * stride] + to : to;
    });
  }
}

static int sum_blocks_of(const logit_shape *s) { return blocks_of(s->n * s->px, 4 * THREADS, SUM_BLOCKS); }

size_t dicek_scratch(const logit_shape *s) {
  return loss_sums_bytes() + (size_t)s->classes * (sizeof(dice_slope) + (size_t)sum_blocks_of(s) * sizeof(dice_sums)) +
         (size_t)(s->n * s->px) * 2 * sizeof(float);
}

template <int MOST> static void launch_all(void *stream, const dice_work &w) {
  int64_t classes = w.j.shape.classes;
  int blocks = blocks_of(w.j.shape.n * w.j.shape.px, THREADS, LOSS_BLOCKS);
  SP_LAUNCH(softmaxes<MOST>, blocks, THREADS, 0, stream, w);
  SP_LAUNCH(sum_classes, dim3(w.sum_blocks, (unsigned)(classes < MOST_CLASSES ? classes : MOST_CLASSES)), THREADS, 0,
            stream, w);
  SP_LAUNCH(sum_up, 1, THREADS, 0, stream, w);
  if (w.j.g) SP_LAUNCH(gradients<MOST>, blocks, THREADS, 0, stream, w);
}

int dicek_loss(void *stream, const loss_job *job, double smooth, double eps) {
  dice_work w = {};
  int64_t positions = job->shape.n * job->shape.px, classes = job->shape.classes;
  w.j = *job;
  w.s = (loss_sums *)job->scratch;
  w.smooth = smooth, w.eps = eps;
  w.sum_blocks = sum_blocks_of(&job->shape);
  w.slope = (dice_slope *)((char *)job->scratch + loss_sums_bytes());
  w.sums = (dice_sums *)(w.slope + classes);
  w.top = (float *)(w.sums + classes * w.sum_blocks);
  w.inv = w.top + positions;
  int64_t step = (int64_t)w.sum_blocks * THREADS;
  w.line = job->shape.rows || !job->shape.px ? 1 : job->shape.px;
  w.far_at = step % w.line;
  w.far_x = step / w.line * classes * w.line + w.far_at;
  sum_all_labels(stream, &w);
  if (classes <= 4) launch_all<4>(stream, w);
  else if (classes <= 10) launch_all<10>(stream, w);
  else if (classes <= 24) launch_all<24>(stream, w);
  else launch_all<0>(stream, w);
  return cudaPeekAtLastError();
}
