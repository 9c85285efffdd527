/* SPDX-License-Identifier: MIT
 * cross_entropy_kernels.cu - loss and gradient on CUDA. */
#include "cross_entropy_kernels.h"

#include "../../kits/loss/loss.cuh"

constexpr int ROW_BLOCKS = 512; /* at most, where a warp has tiles of few classes */
constexpr int FEW = 32;         /* up to so many classes, a position's logits are kept in registers */
constexpr int WEIGHTS_AT_ONCE = 512;

struct ce_work : loss_work {
  ce_smooth smooth;
};

struct some_weights {
  float w[WEIGHTS_AT_ONCE];
};

static __global__ void store_weights(float *to, const some_weights from, int n) {
  for (int i = threadIdx.x; i < n; i += THREADS) to[i] = from.w[i];
}

#include "cross_entropy_soft.cuh"

/* ---- the pass over the logits ---- */

struct position {
  int label;    /* -1: does not count */
  float own;    /* what the label's class counts; 0 where the label does not count */
  float weight; /* what all of the position counts: more than its own with smoothing */
};

static __device__ position position_of(const ce_work &w, int64_t y) {
  if (y == w.j.ignore || y < 0 || y >= w.j.shape.classes) return {-1, 0.0f, 0.0f};
  float own = __fmul_rn(w.smooth.own, w.class_weights ? w.class_weights[y] : 1.0f);
  return {(int)y, own, __fadd_rn(own, w.smooth.all)};
}

/* What smoothing gives to class c. */
static __device__ double each_of(const ce_work &w, int64_t c) {
  return w.class_weights ? w.smooth.each * w.class_weights[c] : w.smooth.each;
}

/* The largest logit counts exactly 1 in the sum of exponentials, which is why all others are added up by themselves:
 * log1p of that keeps its digits where a prediction is nearly certain. (An infinite one gives NaN.) */
static __device__ double loss_of(const position &at, double log_sum, float top, float picked) {
  return at.weight != 0.0f ? at.weight * (log_sum + ((double)top - (double)picked)) : 0.0;
}

/* The same with smoothing; `spread` is the sum of each class's part times its distance from the largest logit. */
static __device__ double smooth_loss(const position &at, double log_sum, float top, float picked, double spread) {
  return at.weight != 0.0f ? at.weight * log_sum + at.own * ((double)top - (double)picked) + spread : 0.0;
}

/* Fused, since p - 1 is near 0 at the label for a prediction that is nearly certain. */
static __device__ float gradient_of(float e, float inv, float k, bool label) {
  float g = __fmaf_rn(__fmul_rn(e, inv), k, label ? -k : 0.0f);
  return k == 0.0f ? 0.0f : g;
}

/* The same with smoothing: `minus` is what label and smoothing take together. */
static __device__ float smooth_gradient(float e, float inv, float k, float minus) {
  float g = __fmaf_rn(__fmul_rn(e, inv), k, -minus);
  return k == 0.0f ? 0.0f : g;
}

static __device__ float minus_of(const ce_work &w, const position &at, int64_t c, float scale) {
  return (float)(scale * ((c == at.label ? (double)at.own : 0.0) + each_of(w, c)));
}

/* 1 / (1 + rest), rounded once: the sum's rounding error goes into the correction of the quotient. */
static __device__ float inverse_of_sum(float rest) {
  float sum = 1.0f + rest, lost = rest > 1.0f ? (rest - sum) + 1.0f : (1.0f - sum) + rest;
  float inv = 1.0f / sum;
  return __fmaf_rn(inv, __fmaf_rn(-sum, inv, 1.0f) - lost * inv, inv);
}

/* In pairs of pairs: that loses next to nothing. */
template <int N> static __device__ float sum_of(const float *v) {
  if constexpr (N == 1) return v[0];
  else return sum_of<N / 2>(v) + sum_of<N - N / 2>(v + N / 2);
}

/* Turns the logits in v into gradients and gives the loss. There are MOST classes, or up to as many if not ALL; loops
 * over them stay in registers. */
template <int MOST, bool ALL, bool SMOOTH>
static __device__ double few_classes(const ce_work &w, float (&v)[MOST], int classes, const position &at, float scale) {
  float top = v[0], picked = 0, terms[MOST];
  double spread = 0;
  int best = 0;
#pragma unroll
  for (int c = 1; c < MOST; c++)
    if ((ALL || c < classes) && v[c] > top) top = v[c], best = c;
#pragma unroll
  for (int c = 0; c < MOST; c++) {
    terms[c] = 0;
    if (!ALL && c >= classes) continue;
    if (c == at.label) picked = v[c];
    if (SMOOTH) spread += each_of(w, c) * ((double)top - (double)v[c]);
    v[c] = exp_neg(v[c] - top);
    terms[c] = c == best ? v[c] - 1.0f : v[c];
  }
  float rest = sum_of<MOST>(terms), inv = inverse_of_sum(rest), k = __fmul_rn(scale, at.weight);
#pragma unroll
  for (int c = 0; c < MOST; c++)
    if (ALL || c < classes)
      v[c] =
          SMOOTH ? smooth_gradient(v[c], inv, k, minus_of(w, at, c, scale)) : gradient_of(v[c], inv, k, c == at.label);
  return SMOOTH ? smooth_loss(at, log1pf(rest), top, picked, spread) : loss_of(at, log1pf(rest), top, picked);
}

/* One thread a position; a warp reads a class of 32 neighbours. */
template <int MOST, bool ALL, bool SMOOTH>
static __global__ void __launch_bounds__(THREADS) few_planes(const ce_work w) {
  const loss_job &j = w.j;
  int64_t all = j.shape.n * j.shape.px, px = j.shape.px;
  int classes = (int)j.shape.classes;
  float scale = gradient_scale(w);
  double loss = 0;
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < all; p += (int64_t)w.loss_blocks * THREADS) {
    float v[MOST];
    int64_t stride, first = logits_at(j.shape, p, &stride);
    position at = position_of(w, label_at(j.labels, j.label_dtype, p));
#pragma unroll
    for (int c = 0; c < MOST; c++)
      if (ALL || c < classes) v[c] = j.x[first + c * px];
    loss += few_classes<MOST, ALL, SMOOTH>(w, v, classes, at, scale);
    if (!j.g) continue;
#pragma unroll
    for (int c = 0; c < MOST; c++)
      if (ALL || c < classes) j.g[first + c * px] = j.acc ? j.g[first + c * px] + v[c] : v[c];
  }
  finish(w, loss);
}

/* The logits of 32 positions whose classes lie side by side, as they wait in a warp's registers for their turn. */
template <int MOST> struct waiting {
  float4 v[(MOST + 3) / 4];
  int64_t label; /* of the lane's own position */
};

template <int MOST>
static __device__ void fetch(waiting<MOST> *next, const loss_job &j, int64_t from, int64_t all, int classes, int wide) {
  int lane = threadIdx.x % 32;
  if (from + lane < all) next->label = label_at(j.labels, j.label_dtype, from + lane);
  if (!wide || from + 32 > all) return;
  const float4 *x = (const float4 *)(j.x + from * classes);
#pragma unroll
  for (int i = 0; i < (MOST + 3) / 4; i++)
    if (lane + 32 * i < 8 * classes) next->v[i] = x[lane + 32 * i];
}

/* The numbers of a row, two at a time where that reaches more banks. */
template <int MOST, bool ALL> static __device__ void load_row(float (&v)[MOST], const float *row, int classes) {
  if constexpr (ALL && MOST % 2 == 0) {
#pragma unroll
    for (int c = 0; c < MOST; c += 2) {
      float2 two = *(const float2 *)(row + c);
      v[c] = two.x, v[c + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int c = 0; c < MOST; c++)
      if (c < classes) v[c] = row[c];
  }
}

template <int MOST, bool ALL> static __device__ void store_row(float *row, const float (&v)[MOST], int classes) {
  if constexpr (ALL && MOST % 2 == 0) {
#pragma unroll
    for (int c = 0; c < MOST; c += 2) *(float2 *)(row + c) = make_float2(v[c], v[c + 1]);
  } else {
#pragma unroll
    for (int c = 0; c < MOST; c++)
      if (c < classes) row[c] = v[c];
  }
}

/* From the tile of a warp to device memory. */
static __device__ void put_tile(float *g, const float *tile, int n, int wide, int add) {
  int lane = threadIdx.x % 32, quads = wide ? n / 4 : 0;
  for (int i = lane; i < quads; i += 32) {
    float4 v = ((const float4 *)tile)[i];
    if (add) {
      float4 old = ((const float4 *)g)[i];
      v = make_float4(old.x + v.x, old.y + v.y, old.z + v.z, old.w + v.w);
    }
    ((float4 *)g)[i] = v;
  }
  for (int i = 4 * quads + lane; i < n; i += 32) g[i] = add ? g[i] + tile[i] : tile[i];
}

/* One thread a position. Each warp has tiles of 32 positions pass through shared memory, so that device memory sees
 * whole lines, and reads the next one early. */
template <int MOST, bool ALL, bool SMOOTH>
static __global__ void __launch_bounds__(THREADS, MOST <= 10 ? 4 : 2) few_rows(const ce_work w, int wide) {
  SP_DYNAMIC_SHARED(float, tiles);
  const loss_job &j = w.j;
  int64_t all = j.shape.n * j.shape.px, step = (int64_t)w.loss_blocks * THREADS;
  int classes = ALL ? MOST : (int)j.shape.classes, lane = threadIdx.x % 32;
  int64_t from = (int64_t)blockIdx.x * THREADS + (threadIdx.x - lane);
  float *tile = tiles + (threadIdx.x - lane) * classes, *row = tile + lane * classes;
  waiting<MOST> next = {};
  fetch<MOST>(&next, j, from, all, classes, wide);
  float scale = gradient_scale(w);
  double loss = 0;
  for (; from < all; from += step) {
    int n = all - from < 32 ? (int)(all - from) : 32;
    if (wide && n == 32) {
#pragma unroll
      for (int i = 0; i < (MOST + 3) / 4; i++)
        if (lane + 32 * i < 8 * classes) ((float4 *)tile)[lane + 32 * i] = next.v[i];
    } else {
      for (int i = lane; i < n * classes; i += 32) tile[i] = j.x[from * classes + i];
    }
    __syncwarp();
    position at = position_of(w, next.label);
    fetch<MOST>(&next, j, from + step, all, classes, wide);
    if (lane < n) {
      float v[MOST];
      load_row<MOST, ALL>(v, row, classes);
      loss += few_classes<MOST, ALL, SMOOTH>(w, v, classes, at, scale);
      store_row<MOST, ALL>(row, v, classes);
    }
    __syncwarp();
    if (j.g) put_tile(j.g + from * classes, tile, n * classes, wide, j.acc);
    __syncwarp();
  }
  finish(w, loss);
}

/* Many classes: a group of threads (a warp, or one alone where neighbours' classes lie side by side) reads a position's
 * logits three times, from the cache. */
template <int GROUP, bool SMOOTH> static __global__ void __launch_bounds__(THREADS) many_classes(const ce_work w) {
  const loss_job &j = w.j;
  int64_t all = j.shape.n * j.shape.px, classes = j.shape.classes;
  int lane = threadIdx.x % GROUP;
  float scale = gradient_scale(w);
  double loss = 0;
  for (int64_t p = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / GROUP; p < all;
       p += (int64_t)w.loss_blocks * THREADS / GROUP) {
    int64_t stride, first = logits_at(j.shape, p, &stride), best = lane < classes ? lane : 0;
    const float *x = j.x + first;
    position at = position_of(w, label_at(j.labels, j.label_dtype, p));
    float top = x[best * stride];
    for (int64_t c = lane + GROUP; c < classes; c += GROUP)
      if (x[c * stride] > top) top = x[c * stride], best = c;
    for (int d = GROUP / 2; d; d >>= 1) {
      float other = __shfl_xor_sync(0xffffffffu, top, d);
      int64_t from = __shfl_xor_sync(0xffffffffu, best, d);
      if (other > top || (other == top && from < best)) top = other, best = from;
    }
    if (GROUP > 1) { /* NaN compares with nothing: let all lanes go on with one */
      top = __shfl_sync(0xffffffffu, top, 0);
      best = __shfl_sync(0xffffffffu, best, 0);
    }
    double rest = 0, spread = 0;
    for (int64_t c = lane; c < classes; c += GROUP) {
      float e = exp_neg(x[c * stride] - top);
      rest += c == best ? e - 1.0f : e;
      if (SMOOTH) spread += each_of(w, c) * ((double)top - (double)x[c * stride]);
    }
    for (int d = GROUP / 2; d; d >>= 1) {
      rest += __shfl_xor_sync(0xffffffffu, rest, d);
      if (SMOOTH) spread += __shfl_xor_sync(0xffffffffu, spread, d);
    }
    float picked = at.label >= 0 ? x[at.label * stride] : 0.0f;
    if (lane == 0)
      loss += SMOOTH ? smooth_loss(at, log1p(rest), top, picked, spread) : loss_of(at, log1p(rest), top, picked);
    if (!j.g) continue;
    float inv = (float)(1.0 / (1.0 + rest)), k = __fmul_rn(scale, at.weight);
    for (int64_t c = lane; c < classes; c += GROUP) {
      float *g = j.g + first + c * stride, e = exp_neg(x[c * stride] - top);
      float v = SMOOTH ? smooth_gradient(e, inv, k, minus_of(w, at, c, scale)) : gradient_of(e, inv, k, c == at.label);
      *g = j.acc ? *g + v : v;
    }
  }
  finish(w, loss);
}

/* ---- the host's part ---- */
size_t cek_scratch(const logit_shape *shape, int class_weights) {
  return loss_sums_bytes() + (class_weights ? (size_t)shape->classes * sizeof(float) : 0);
}

template <int MOST, bool ALL, bool SMOOTH> static void start_few(void *stream, const ce_work &w) {
  size_t tiles = (size_t)THREADS * (size_t)w.j.shape.classes * sizeof(float);
  bool wide = (uintptr_t)w.j.x % sizeof(float4) == 0 && (uintptr_t)w.j.g % sizeof(float4) == 0;
  if (w.j.shape.rows) SP_LAUNCH((few_rows<MOST, ALL, SMOOTH>), w.loss_blocks, THREADS, tiles, stream, w, wide);
  else SP_LAUNCH((few_planes<MOST, ALL, SMOOTH>), w.loss_blocks, THREADS, 0, stream, w);
}

template <int MOST> static void launch_few(void *stream, const ce_work &w) {
  if (w.smooth.each != 0) start_few<MOST, false, true>(stream, w);
  else if (w.j.shape.classes == MOST) start_few<MOST, true, false>(stream, w);
  else start_few<MOST, false, false>(stream, w);
}

template <int GROUP> static void launch_many(void *stream, const ce_work &w) {
  if (w.smooth.each != 0) SP_LAUNCH((many_classes<GROUP, true>), w.loss_blocks, THREADS, 0, stream, w);
  else SP_LAUNCH((many_classes<GROUP, false>), w.loss_blocks, THREADS, 0, stream, w);
}

int cek_loss(void *stream, const loss_job *job, int rows, const ce_smooth *smooth, const float *class_weights) {
  ce_work w = {};
  w.j = *job;
  w.s = (loss_sums *)job->scratch;
  w.smooth = *smooth;
  int64_t all = job->shape.n * job->shape.px, classes = job->shape.classes;
  bool warps = classes > FEW && job->shape.rows;
  w.loss_blocks = blocks_of(all, warps ? WARPS : THREADS, job->shape.rows && !warps ? ROW_BLOCKS : LOSS_BLOCKS);
  if (class_weights) {
    float *to = (float *)((char *)job->scratch + loss_sums_bytes());
    w.class_weights = to;
    for (int64_t from = 0; from < classes; from += WEIGHTS_AT_ONCE) {
      some_weights some = {};
      int n = classes - from < WEIGHTS_AT_ONCE ? (int)(classes - from) : WEIGHTS_AT_ONCE;
      for (int i = 0; i < n; i++) some.w[i] = class_weights[from + i];
      SP_LAUNCH(store_weights, 1, THREADS, 0, stream, to + from, some, n);
    }
  }
  sum_all_labels(stream, &w);
  if (job->shares) launch_soft(stream, w, rows);
  else if (warps) launch_many<32>(stream, w);
  else if (classes > FEW) launch_many<1>(stream, w);
  else if (classes <= 4) launch_few<4>(stream, w);
  else if (classes <= 10) launch_few<10>(stream, w);
  else if (classes <= 16) launch_few<16>(stream, w);
  else if (classes <= 24) launch_few<24>(stream, w);
  else launch_few<FEW>(stream, w);
  return cudaPeekAtLastError();
}
