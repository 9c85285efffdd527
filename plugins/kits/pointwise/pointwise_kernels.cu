/* SPDX-License-Identifier: MIT
 * pointwise_kernels.cu - losses of single numbers on CUDA: the pass over the labels, then one over the numbers as they
 * lie in memory. */
#include "pointwise_kernels.h"

#include "../loss/loss.cuh"
static __device__ inline float log1p_unit(float e) { return log1pf(e); }

#include "point.h"

struct point_work : loss_work {
  point_job p;
};

static __device__ void put(float *g, float v, int acc) { *g = acc ? *g + v : v; }

/* false: the number does not count. */
static __device__ bool target_of(const point_job &p, int64_t position, int64_t c, float *t) {
  if (p.target == TARGET_FLOAT) {
    *t = p.y[point_index(&p.l.shape, p.y_rows, position, c)];
    return true;
  }
  int64_t y = logits_label(p.l.labels, p.l.label_dtype, position);
  *t = p.target == TARGET_LABEL ? (float)y : (float)(y == c);
  return y != p.l.ignore && y >= 0 && y < p.l.values;
}

template <int KIND> static __global__ void __launch_bounds__(THREADS) points(const point_work w) {
  const point_job &p = w.p;
  const logit_shape &s = w.j.shape;
  int64_t all = s.n * s.px * s.classes;
  float scale = gradient_scale(w);
  double loss = 0;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += (int64_t)w.loss_blocks * THREADS) {
    int64_t line = i / (s.rows ? s.classes : s.px), at = i % (s.rows ? s.classes : s.px);
    int64_t position = s.rows ? line : line / s.classes * s.px + at, c = s.rows ? at : line % s.classes;
    float t, slope = 0;
    if (target_of(p, position, c, &t)) loss += point_of(&p, KIND, w.j.x[i], t, &slope);
    slope = __fmul_rn(slope, scale);
    if (w.j.g) put(&w.j.g[i], slope, w.j.acc);
    if (p.dy) put(&p.dy[point_index(&s, p.y_rows, position, c)], -slope, p.dy_acc);
  }
  finish(w, loss);
}

size_t pointk_scratch(void) { return loss_sums_bytes(); }

int pointk_loss(void *stream, const point_job *job) {
  const logit_shape *s = &job->l.shape;
  point_work w = {};
  w.j = job->l;
  w.p = *job;
  w.s = (loss_sums *)job->l.scratch;
  w.loss_blocks = blocks_of(s->n * s->px * s->classes, 4 * THREADS, LOSS_BLOCKS);
  sum_all_labels(stream, &w);
  if (job->kind == POINT_FOCAL_2) SP_LAUNCH(points<POINT_FOCAL_2>, w.loss_blocks, THREADS, 0, stream, w);
  else if (job->kind == POINT_FOCAL) SP_LAUNCH(points<POINT_FOCAL>, w.loss_blocks, THREADS, 0, stream, w);
  else if (job->kind == POINT_BCE) SP_LAUNCH(points<POINT_BCE>, w.loss_blocks, THREADS, 0, stream, w);
  else SP_LAUNCH(points<POINT_SQUARE>, w.loss_blocks, THREADS, 0, stream, w);
  return cudaPeekAtLastError();
}
