/* SPDX-License-Identifier: MIT
 * dice_kernels.cu - the Dice loss on CUDA: the softmax of each position, the sums of each class, the slope of each class,
 * the gradient. */
#include "dice_kernels.h"

#include "../../kits/loss/loss.cuh"
#include "dice_class.h"

constexpr int SUM_BLOCKS = 64;       /* at most, of each class */
constexpr int MOST_CLASSES = 0x4000; /* beside one another in a grid; more are done one after another */

struct dice_work : loss_work {
  double smooth, eps;
  int sum_blocks;
  float *top, *inv;  /* of each position: the largest logit, 1 / the sum of exponentials */
  dice_sums *sums;   /* sum_blocks per class */
  dice_slope *slope; /* of each class, with all that the gradient is multiplied by */
};

static __device__ int64_t label_of(const loss_job &j, int64_t p) {
  int64_t y = logits_label(j.labels, j.label_dtype, p);
  return y != j.ignore && y >= 0 && y < j.values ? y : -1;
}

static __device__ float probability(const dice_work &w, int64_t p, float x) {
  return __fmul_rn(exp_neg(x - w.top[p]), w.inv[p]);
}

static __global__ void __launch_bounds__(THREADS) softmaxes(const dice_work w) {
  const logit_shape &s = w.j.shape;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < s.n * s.px; p += (int64_t)gridDim.x * THREADS) {
    int64_t stride;
    const float *x = w.j.x + logits_at(s, p, &stride);
    float top = x[0];
    double sum = 0;
    for (int64_t c = 1; c < s.classes; c++) top = x[c * stride] > top ? x[c * stride] : top;
    for (int64_t c = 0; c < s.classes; c++) sum += exp_neg(x[c * stride] - top);
    w.top[p] = top;
    w.inv[p] = (float)(1.0 / sum);
  }
}

/* A block has a class and every sum_blocks-th piece of the positions. */
static __global__ void __launch_bounds__(THREADS) sum_classes(const dice_work w) {
  const logit_shape &s = w.j.shape;
  for (int64_t c = blockIdx.y; c < s.classes; c += gridDim.y) {
    dice_sums part = {0, 0, 0};
    for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < s.n * s.px;
         p += (int64_t)w.sum_blocks * THREADS) {
      int64_t stride, first = logits_at(s, p, &stride), label = label_of(w.j, p);
      if (label < 0) continue;
      float v = probability(w, p, w.j.x[first + c * stride]);
      part.said += v;
      if (label == c) part.both += v, part.truth += 1;
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
  *w.j.total = s.counted ? 1 : 0; /* each batch has a score of its own */
}

/* Through the softmax: p[c] * (slope of c - mean of the slopes under p). */
static __global__ void __launch_bounds__(THREADS) gradients(const dice_work w) {
  const logit_shape &s = w.j.shape;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < s.n * s.px; p += (int64_t)gridDim.x * THREADS) {
    int64_t stride, first = logits_at(s, p, &stride), label = label_of(w.j, p);
    const float *x = w.j.x + first;
    float *g = w.j.g + first;
    double mean = 0;
    for (int64_t c = 0; c < s.classes && label >= 0; c++) {
      dice_slope d = w.slope[c];
      mean += probability(w, p, x[c * stride]) * (c == label ? d.all + d.own : d.all);
    }
    for (int64_t c = 0; c < s.classes; c++) {
      dice_slope d = w.slope[c];
      double v = probability(w, p, x[c * stride]) * ((c == label ? d.all + d.own : d.all) - mean);
      float to = label >= 0 ? (float)v : 0.0f;
      g[c * stride] = w.j.acc ? g[c * stride] + to : to;
    }
  }
}

static int sum_blocks_of(const logit_shape *s) { return blocks_of(s->n * s->px, 4 * THREADS, SUM_BLOCKS); }

size_t dicek_scratch(const logit_shape *s) {
  return loss_sums_bytes() + (size_t)s->classes * (sizeof(dice_slope) + (size_t)sum_blocks_of(s) * sizeof(dice_sums)) +
         (size_t)(s->n * s->px) * 2 * sizeof(float);
}

int dicek_loss(void *stream, const loss_job *job, double smooth, double eps) {
  dice_work w = {};
  int64_t positions = job->shape.n * job->shape.px, classes = job->shape.classes;
  int blocks = blocks_of(positions, THREADS, LOSS_BLOCKS);
  w.j = *job;
  w.s = (loss_sums *)job->scratch;
  w.smooth = smooth, w.eps = eps;
  w.sum_blocks = sum_blocks_of(&job->shape);
  w.slope = (dice_slope *)((char *)job->scratch + loss_sums_bytes());
  w.sums = (dice_sums *)(w.slope + classes);
  w.top = (float *)(w.sums + classes * w.sum_blocks);
  w.inv = w.top + positions;
  sum_all_labels(stream, &w);
  SP_LAUNCH(softmaxes, blocks, THREADS, 0, stream, w);
  SP_LAUNCH(sum_classes, dim3(w.sum_blocks, (unsigned)(classes < MOST_CLASSES ? classes : MOST_CLASSES)), THREADS, 0,
            stream, w);
  SP_LAUNCH(sum_up, 1, THREADS, 0, stream, w);
  if (job->g) SP_LAUNCH(gradients, blocks, THREADS, 0, stream, w);
  return cudaPeekAtLastError();
}
