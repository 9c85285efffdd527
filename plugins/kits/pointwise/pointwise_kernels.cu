/* SPDX-License-Identifier: MIT
 * pointwise_kernels.cu - losses of single numbers on CUDA: the pass over the labels, then one over the numbers as they
 * lie in memory. */
#include "pointwise_kernels.h"

#include "../cuda/four.cuh"
#include "../loss/loss.cuh"
static __device__ inline float log1p_unit(float e) { return log1pf(e); }

#include "point.h"

enum { LABELS, NUMBERS, ACROSS }; /* targets; ACROSS: numbers that lie in the other order */
constexpr int ROUNDS = 4;         /* that a warp makes at once */

/* Where a number belongs; or how far apart two of them are, which takes no division to add. */
struct place {
  int64_t position, at; /* at: in its line, which is a class of a sample */
  uint32_t c;
};

static __host__ __device__ inline place place_of(int64_t i, int64_t line, int64_t classes) {
  int64_t lines = i / line, samples = lines / classes, at = i - lines * line;
  return {samples * line + at, at, (uint32_t)(lines - samples * classes)};
}

struct point_work : loss_work {
  point_job p;
  int wide;        /* all numbers lie on 16 bytes */
  int32_t ignore;  /* -1, which is no label anyway, where none of 32 bits is ignored */
  int64_t line;    /* numbers side by side that are of one class */
  place next, far; /* to the next number, and to that of the same thread, ROUNDS later */
};

static __device__ __forceinline__ void move_on(const point_work &w, place *p, const place &by) {
  p->position += by.position, p->at += by.at, p->c += by.c;
  if (p->at >= w.line) p->at -= w.line, p->position -= w.line, p->c++;
  if (p->c >= w.j.shape.classes) p->c -= (uint32_t)w.j.shape.classes, p->position += w.line;
}

/* Whether a number of class c counts whose label is y; in 32 bits where a label has no more. */
template <typename T>
static __device__ __forceinline__ bool label_target(const point_work &w, T y, uint32_t c, float *t) {
  bool in = sizeof y == 8 ? (uint64_t)y < (uint64_t)w.j.values : (uint32_t)y < (uint32_t)w.j.values;
  *t = (uint32_t)y == c ? 1.0f : 0.0f;
  return in && (int32_t)y != w.ignore;
}

template <typename T>
static __device__ __forceinline__ unsigned line_targets(const point_work &w, int64_t position, uint32_t c,
                                                        float (&t)[4]) {
  const T *labels = (const T *)w.j.labels + position;
  unsigned counts = 0;
#pragma unroll
  for (int k = 0; k < 4; k++) counts |= (unsigned)label_target(w, labels[k], c, &t[k]) << k;
  return counts;
}

/* The targets of four numbers; bit k: that of number k counts. one: what is added to a class for its label. */
static __device__ __forceinline__ unsigned label_targets(const point_work &w, place p, int n, uint32_t one,
                                                         float (&t)[4]) {
  const loss_job &j = w.j;
  if (n == 4 && p.at + 4 <= w.line) {
    if (j.label_dtype == SP_U8) return line_targets<uint8_t>(w, p.position, p.c + one, t);
    if (j.label_dtype == SP_I32) return line_targets<int32_t>(w, p.position, p.c + one, t);
    return line_targets<int64_t>(w, p.position, p.c + one, t);
  }
  unsigned counts = 0;
#pragma unroll
  for (int k = 0; k < 4; k++, move_on(w, &p, w.next)) {
    t[k] = 0;
    if (k >= n) continue;
    counts |= (unsigned)label_target(w, label_at(j.labels, j.label_dtype, p.position), p.c + one, &t[k]) << k;
  }
  return counts;
}

/* A thread adds the losses of one number a round, as far apart as there are threads. A warp reads its 32 numbers of
 * ROUNDS rounds by fours; what they cost passes through shared memory to the threads that add it. */
template <int KIND, int WAY>
static __global__ void __launch_bounds__(THREADS, KIND == POINT_SQUARE && WAY == NUMBERS ? 8 : 4)
    points(const point_work w) {
  __shared__ float4 costs[THREADS];
  const loss_job &j = w.j;
  const point_job &p = w.p;
  int64_t all = j.shape.n * j.shape.px * j.shape.classes, step = (int64_t)w.loss_blocks * THREADS;
  int lane = threadIdx.x % 32;
  int64_t from = (int64_t)blockIdx.x * THREADS + (threadIdx.x - lane), i = from + lane / 8 * step + lane % 8 * 4;
  const float *row = (const float *)&costs[threadIdx.x - lane] + lane;
  place at = {};
  if (WAY != NUMBERS) at = place_of(i, w.line, j.shape.classes);
  float scale = gradient_scale(w);
  double loss = 0;
  for (; from < all; from += ROUNDS * step, i += ROUNDS * step) {
    float x[4], t[4], cost[4], slope[4];
    int64_t other[4]; /* where targets lie ACROSS */
    int n = all - i >= 4 ? 4 : all > i ? (int)(all - i) : 0;
    unsigned counts = (1u << n) - 1;
    load_four(x, j.x + i, n, w.wide);
    if (WAY == NUMBERS) load_four(t, p.y + i, n, w.wide);
    if (WAY == LABELS) counts = label_targets(w, at, n, KIND == POINT_BCE, t);
    if (WAY == ACROSS) {
      place each = at;
#pragma unroll
      for (int k = 0; k < 4; k++, move_on(w, &each, w.next)) {
        other[k] = logit_index(&j.shape, p.y_rows, each.position, each.c);
        t[k] = k < n ? p.y[other[k]] : 0.0f;
      }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
      cost[k] = point_of(&p, KIND, x[k], t[k], &slope[k]);
      cost[k] = counts >> k & 1 ? cost[k] : 0.0f;
      slope[k] = __fmul_rn(counts >> k & 1 ? slope[k] : 0.0f, scale);
    }
    costs[threadIdx.x] = make_float4(cost[0], cost[1], cost[2], cost[3]);
    if (KIND == POINT_BCE && WAY != LABELS) { /* the others have any numbers */
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (k < n) judge_target(w, WAY == ACROSS ? other[k] : i + k, t[k]);
    }
    if (j.g) put_four(j.g + i, slope, n, w.wide, j.acc);
    if (WAY != LABELS && p.dy) { /* behind the other one, as they may be one tensor */
      float turned[4] = {-slope[0], -slope[1], -slope[2], -slope[3]};
      if (WAY == NUMBERS) put_four(p.dy + i, turned, n, w.wide, p.dy_acc);
#pragma unroll
      for (int k = 0; k < 4 && WAY == ACROSS; k++)
        if (k < n) p.dy[other[k]] = p.dy_acc ? p.dy[other[k]] + turned[k] : turned[k];
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) loss += row[32 * r];
    __syncwarp();
    if (WAY != NUMBERS) move_on(w, &at, w.far);
  }
  finish(w, loss);
}

size_t pointk_scratch(void) { return loss_sums_bytes(); }

template <int KIND, int WAY> static void launch_points(void *stream, point_work *w) {
  const logit_shape &s = w->j.shape;
  /* LABELS of 0 and 1 have one class: all of them are one line */
  w->line = WAY == LABELS && KIND == POINT_BCE ? s.n * s.px : s.rows ? 1 : s.px;
  if (!w->line) w->line = 1;
  w->next = place_of(1, w->line, s.classes);
  w->far = place_of((int64_t)ROUNDS * w->loss_blocks * THREADS, w->line, s.classes);
  SP_LAUNCH((points<KIND, WAY>), w->loss_blocks, THREADS, 0, stream, *w);
}

template <int KIND> static void launch_numbers(void *stream, point_work *w) {
  if (w->p.y_rows == w->j.shape.rows) launch_points<KIND, NUMBERS>(stream, w);
  else launch_points<KIND, ACROSS>(stream, w);
}

int pointk_loss(void *stream, const point_job *job) {
  const logit_shape *s = &job->l.shape;
  point_work w = {};
  w.j = job->l;
  w.p = *job;
  w.s = (loss_sums *)job->l.scratch;
  w.loss_blocks = blocks_of(s->n * s->px * s->classes, 4 * THREADS, LOSS_BLOCKS);
  w.wide = ((uintptr_t)w.j.x | (uintptr_t)w.j.g | (uintptr_t)w.p.y | (uintptr_t)w.p.dy) % sizeof(float4) == 0;
  w.ignore = w.j.ignore == (int32_t)w.j.ignore ? (int32_t)w.j.ignore : -1;
  sum_all_labels(stream, &w);
  if (job->kind == POINT_FOCAL_2) launch_points<POINT_FOCAL_2, LABELS>(stream, &w);
  else if (job->kind == POINT_FOCAL) launch_points<POINT_FOCAL, LABELS>(stream, &w);
  else if (job->kind == POINT_SQUARE) launch_numbers<POINT_SQUARE>(stream, &w);
  else if (job->target == TARGET_FLOAT) launch_numbers<POINT_BCE>(stream, &w);
  else launch_points<POINT_BCE, LABELS>(stream, &w);
  return cudaPeekAtLastError();
}
