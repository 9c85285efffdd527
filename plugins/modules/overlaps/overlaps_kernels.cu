/* SPDX-License-Identifier: MIT
 * overlaps_kernels.cu - the losses `dice`, `jaccard` and `tversky` on CUDA: the softmax of each position, the sums of
 * each class, the slope of each class, the gradient. */
#include "overlaps_kernels.h"

#include "../../kits/loss/softmax.cuh"
#include "overlaps_class.h"

constexpr int SUM_BLOCKS = 64;       /* at most, of each class */
constexpr int AT_ONCE = 4;           /* positions whose numbers a thread has on their way */
constexpr int MOST_CLASSES = 0x4000; /* beside one another in a grid; more are done one after another */

struct overlap_work : loss_work {
  overlap_form form;
  int sum_blocks;
  int64_t line;          /* positions whose logits of a class lie side by side */
  int64_t far_at, far_x; /* from a thread's position of sum_classes to its next one: in a line, and among the logits */
  float *top, *inv;      /* of each position: the largest logit, 1 / the sum of exponentials */
  overlap_sums *sums;    /* sum_blocks per class */
  overlap_slope *slope;  /* of each class, with all that the gradient is multiplied by */
};

/* A block has a class and every sum_blocks-th piece of the positions. A thread reads several before it adds them. */
static __global__ void __launch_bounds__(THREADS) sum_classes(const overlap_work w) {
  const logit_shape &s = w.j.shape;
  int64_t all = s.n * s.px;
  for (int64_t c = blockIdx.y; c < s.classes; c += gridDim.y) {
    overlap_sums part = {0, 0, 0};
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
static __global__ void __launch_bounds__(THREADS) sum_up(const overlap_work w) {
  __shared__ double power, steep;
  int64_t classes = w.j.shape.classes;
  double loss = 0, scale = w.j.weight / (double)classes * (double)w.j.step->loss_scale;
  for (int64_t c = threadIdx.x; c < classes; c += THREADS) {
    overlap_sums all = {0, 0, 0};
    overlap_slope slope;
    for (int i = 0; i < w.sum_blocks; i++) {
      const overlap_sums &s = w.sums[c * w.sum_blocks + i];
      all.both += s.both, all.said += s.said, all.truth += s.truth;
    }
    loss += overlap_class(&all, &w.form, &slope);
    w.slope[c] = slope;
  }
  loss = block_sum(loss);
  if (threadIdx.x == 0) power = overlap_power(loss / (double)classes, &w.form, &steep);
  __syncthreads();
  scale *= steep;
  for (int64_t c = threadIdx.x; c < classes; c += THREADS)
    w.slope[c] = {w.slope[c].own * scale, w.slope[c].all * scale};
  if (threadIdx.x >= 32) return;
  label_sum s = all_labels(w);
  if (threadIdx.x) return;
  loss_result(w, s, (float)(w.j.weight * power));
  if (w.j.total) *w.j.total = s.counted ? 1 : 0; /* each batch has a score of its own */
}

/* Through the softmax: p[c] * (slope of c - mean of the slopes under p). */
template <int MOST> static __global__ void __launch_bounds__(THREADS) gradients(const overlap_work w) {
  const logit_shape &s = w.j.shape;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < s.n * s.px; p += (int64_t)gridDim.x * THREADS) {
    int64_t stride, first = logits_at(s, p, &stride), label = label_of(w.j, p);
    float top = w.top[p], inv = w.inv[p], *g = w.j.g + first;
    some_logits<MOST> x(w.j.x + first, stride, s.classes);
    double mean = 0;
    if constexpr (MOST > 0) each_class<MOST>(s.classes, [&](int64_t c) { x.v[c] = probability(x.v[c], top, inv); });
    auto said = [&](int64_t c) { return MOST > 0 ? x.at(c) : probability(x.at(c), top, inv); };
    each_class<MOST>(label >= 0 ? s.classes : 0, [&](int64_t c) {
      overlap_slope d = w.slope[c];
      mean += said(c) * (c == label ? d.all + d.own : d.all);
    });
    each_class<MOST>(s.classes, [&](int64_t c) {
      overlap_slope d = w.slope[c];
      double v = said(c) * ((c == label ? d.all + d.own : d.all) - mean);
      float to = label >= 0 ? (float)v : 0.0f;
      g[c * stride] = w.j.acc ? g[c * stride] + to : to;
    });
  }
}

static int sum_blocks_of(const logit_shape *s) { return blocks_of(s->n * s->px, 4 * THREADS, SUM_BLOCKS); }

size_t overlapk_scratch(const logit_shape *s) {
  return loss_sums_bytes() +
         (size_t)s->classes * (sizeof(overlap_slope) + (size_t)sum_blocks_of(s) * sizeof(overlap_sums)) +
         (size_t)(s->n * s->px) * 2 * sizeof(float);
}

template <int MOST> static void launch_all(void *stream, const overlap_work &w) {
  int64_t classes = w.j.shape.classes;
  int blocks = blocks_of(w.j.shape.n * w.j.shape.px, THREADS, LOSS_BLOCKS);
  SP_LAUNCH(softmaxes<MOST>, blocks, THREADS, 0, stream, w.j, w.top, w.inv);
  SP_LAUNCH(sum_classes, dim3(w.sum_blocks, (unsigned)(classes < MOST_CLASSES ? classes : MOST_CLASSES)), THREADS, 0,
            stream, w);
  SP_LAUNCH(sum_up, 1, THREADS, 0, stream, w);
  if (w.j.g) SP_LAUNCH(gradients<MOST>, blocks, THREADS, 0, stream, w);
}

int overlapk_loss(void *stream, const loss_job *job, const overlap_form *form) {
  overlap_work w = {};
  int64_t positions = job->shape.n * job->shape.px, classes = job->shape.classes;
  w.j = *job;
  w.s = (loss_sums *)job->scratch;
  w.form = *form;
  w.sum_blocks = sum_blocks_of(&job->shape);
  w.slope = (overlap_slope *)((char *)job->scratch + loss_sums_bytes());
  w.sums = (overlap_sums *)(w.slope + classes);
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
