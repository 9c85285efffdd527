/* SPDX-License-Identifier: MIT
 * color_jitter_kernels.cu - colours of images changed on CUDA: one kernel a batch, and where contrast is on one before it,
 * which leaves the sums of each image's grey values, a block's each, added in an order that no timing changes.
 *
 * Colours know no rows: an image is so many pixels, and a thread works on four that lie side by side.
 */
#include "color_jitter_kernels.h"

#include "../aug/kit.cuh"
#include "pixel.h"

enum { THREADS = 256, QUADS = 4 /* for a thread */ };

/* What a block does to its sample, and to its tensor of it. */
struct work {
  jitter_factors factors;
  uint32_t steps;
  int mean_at;
  float mean;
};

static __device__ void work_of(const aug_job &j, const aug_dice &dice, const jitter_ranges &ranges, const float *given,
                               work &w) {
  if (given) jitter_take(given + (int64_t)blockIdx.y * JITTER_COLUMNS, &w.factors);
  else jitter_draw(&dice, blockIdx.y, &ranges, &w.factors);
  w.steps = jitter_steps(&w.factors, j.planes * j.pix);
  w.mean_at = jitter_mean_at(w.steps);
  w.mean = 0;
}

/* Four pixels of one or three channels. */
template <int C> struct four { float c[C][4]; };

static __device__ __forceinline__ uint8_t narrow(uint8_t, float v) { return (uint8_t)(int)v; }
static __device__ __forceinline__ float narrow(float, float v) { return v; }

/* Up to four elements that lie side by side; `whole`: all of them are there, at an address for one access. */
template <typename T> static __device__ __forceinline__ void get_four(const T *p, bool whole, int64_t left, float *v) {
  if (whole) {
    aug_quad<T> q = *reinterpret_cast<const aug_quad<T> *>(p);
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = (float)q.v[k];
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) v[k] = k < left ? (float)p[k] : 0.0f;
}

template <typename T> static __device__ __forceinline__ void put_four(T *p, bool whole, int64_t left, const float *v) {
  if (whole) {
    aug_quad<T> q = {{narrow(T(), v[0]), narrow(T(), v[1]), narrow(T(), v[2]), narrow(T(), v[3])}};
    *reinterpret_cast<aug_quad<T> *>(p) = q;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++)
    if (k < left) p[k] = narrow(T(), v[k]);
}

/* Pixels i .. i + 3 of a sample; `pixels` - i of them are there. Interleaved: of a channels-last image. */
template <typename T, int C, bool INTERLEAVED>
static __device__ __forceinline__ void load(const T *p, int64_t i, int64_t pixels, bool whole, four<C> &y) {
  if constexpr (!INTERLEAVED) {
#pragma unroll
    for (int c = 0; c < C; c++) get_four(p + c * pixels + i, whole, pixels - i, y.c[c]);
  } else {
    float v[4 * C];
#pragma unroll
    for (int q = 0; q < C; q++) get_four(p + i * C + 4 * q, whole, (pixels - i) * C - 4 * q, v + 4 * q);
#pragma unroll
    for (int e = 0; e < 4 * C; e++) y.c[e % C][e / C] = v[e];
  }
}

template <typename T, int C, bool INTERLEAVED>
static __device__ __forceinline__ void store(T *p, int64_t i, int64_t pixels, bool whole, const four<C> &x) {
  if constexpr (!INTERLEAVED) {
#pragma unroll
    for (int c = 0; c < C; c++) put_four(p + c * pixels + i, whole, pixels - i, x.c[c]);
  } else {
    float v[4 * C];
#pragma unroll
    for (int e = 0; e < 4 * C; e++) v[e] = x.c[e % C][e / C];
#pragma unroll
    for (int q = 0; q < C; q++) put_four(p + i * C + 4 * q, whole, (pixels - i) * C - 4 * q, v + 4 * q);
  }
}

/* The first `count` steps. */
template <int C, bool BYTES>
static __device__ __forceinline__ void change(const work &w, int count, float max, four<C> &v) {
#pragma unroll 1
  for (int i = 0; i < count && jitter_op(w.steps, i) != JITTER_END; i++) {
    int op = jitter_op(w.steps, i);
    float by = w.factors.by[op];
    if (op <= JITTER_CONTRAST) {
      float other = op == JITTER_CONTRAST ? __fmul_rn(__fsub_rn(1.0f, by), w.mean) : 0.0f;
#pragma unroll
      for (int e = 0; e < 4 * C; e++) v.c[e / 4][e % 4] = pixel_blend(v.c[e / 4][e % 4], by, other, BYTES, max);
    } else if constexpr (C == 3) {
#pragma unroll
      for (int k = 0; k < 4; k++) {
        pixel x = {v.c[0][k], v.c[1][k], v.c[2][k]};
        if (op == JITTER_SATURATION) x = pixel_saturate(x, by, BYTES, max);
        else x = pixel_hue(x, by, BYTES, BYTES || max > 1.0f, 1.0f);
        v.c[0][k] = x.r, v.c[1][k] = x.g, v.c[2][k] = x.b;
      }
    }
  }
}

/* Calls each(i, pixels, whole) for the pixels i .. i + 3 that are this thread's. */
template <typename T, int C, typename Each>
static __device__ __forceinline__ void each_four(const aug_job &j, Each each) {
  int64_t pixels = (int64_t)j.h * j.w, step = 4 * (int64_t)gridDim.x * THREADS;
  bool even = pixels % 4 == 0 &&
              (reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out)) % sizeof(aug_quad<T>) == 0;
  for (int64_t i = 4 * ((int64_t)blockIdx.x * THREADS + threadIdx.x); i < pixels; i += step) each(i, pixels, even);
}

template <typename T, int C, bool INTERLEAVED>
static __device__ void paint(const aug_job &j, const work &w, float max) {
  int64_t sample = (int64_t)blockIdx.y * j.h * j.w * C;
  const T *in = static_cast<const T *>(j.in) + sample;
  T *out = static_cast<T *>(j.out) + sample;
  each_four<T, C>(j, [&](int64_t i, int64_t pixels, bool whole) {
    four<C> v;
    load<T, C, INTERLEAVED>(in, i, pixels, whole, v);
    change<C, sizeof(T) == 1>(w, JITTER_OPS, max, v);
    store<T, C, INTERLEAVED>(out, i, pixels, whole, v);
  });
}

template <typename T, int C, bool INTERLEAVED>
static __device__ double sum_up(const aug_job &j, const work &w, float max) {
  const T *in = static_cast<const T *>(j.in) + (int64_t)blockIdx.y * j.h * j.w * C;
  double sum = 0;
  each_four<T, C>(j, [&](int64_t i, int64_t pixels, bool whole) {
    four<C> v;
    load<T, C, INTERLEAVED>(in, i, pixels, whole, v);
    change<C, sizeof(T) == 1>(w, w.mean_at, max, v);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      float grey = C == 1 ? v.c[0][k] : pixel_grey(v.c[0][k], v.c[1 % C][k], v.c[2 % C][k], sizeof(T) == 1);
      if (i + k < pixels) sum = __dadd_rn(sum, (double)grey);
    }
  });
  return sum;
}

/* Calls run(T(), channels, interleaved) with constants. */
template <typename Run> static __device__ __forceinline__ void by_layout(const aug_job &j, Run run) {
  if (j.planes * j.pix == 1) run(std::integral_constant<int, 1>(), std::false_type());
  else if (j.pix == 1) run(std::integral_constant<int, 3>(), std::false_type());
  else run(std::integral_constant<int, 3>(), std::true_type());
}

/* The sum of a value of each lane, in an order of its own. */
static __device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
  for (int lanes = 16; lanes; lanes /= 2) v = __dadd_rn(v, __shfl_xor_sync(0xffffffffu, v, lanes));
  return v;
}

/* blockIdx.z: images alone, no masks. */
static __global__ void __launch_bounds__(THREADS)
    grey_sums(const aug_jobs jobs, aug_dice dice, jitter_ranges ranges, const float *given, double *sums, float max) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ work w;
  __shared__ double parts[THREADS / 32];
  if (threadIdx.x == 0) work_of(j, dice, ranges, given, w);
  __syncthreads();
  if (w.mean_at < 0) return;
  double sum = 0;
  by_layout(j, [&](auto channels, auto interleaved) {
    constexpr int C = decltype(channels)::value;
    constexpr bool I = decltype(interleaved)::value;
    sum = j.dtype == SP_U8 ? sum_up<uint8_t, C, I>(j, w, 255.0f) : sum_up<float, C, I>(j, w, max);
  });
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  for (int i = 1; i < THREADS / 32; i++) sum = __dadd_rn(sum, parts[i]);
  sums[((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = sum;
}

/* The mean from `parts` sums; one warp calls it. */
static __device__ float mean_of(const double *sums, int parts, int64_t pixels) {
  double sum = 0;
  for (int i = threadIdx.x; i < parts; i += 32) sum = __dadd_rn(sum, sums[i]);
  return (float)__ddiv_rn(warp_sum(sum), (double)pixels);
}

static __device__ void copy_mask(const aug_job &j) {
  aug_by_size(j.dtype, [&](auto t) {
    typedef decltype(t) T;
    const T *in = static_cast<const T *>(j.in) + (int64_t)blockIdx.y * j.h * j.w;
    T *out = static_cast<T *>(j.out) + (int64_t)blockIdx.y * j.h * j.w;
    each_four<T, 1>(j, [&](int64_t i, int64_t pixels, bool whole) {
      if (whole) *reinterpret_cast<aug_quad<T> *>(out + i) = *reinterpret_cast<const aug_quad<T> *>(in + i);
      else
        for (int64_t e = i; e < i + 4 && e < pixels; e++) out[e] = in[e];
    });
  });
}

static __global__ void __launch_bounds__(THREADS)
    jitter(const aug_jobs jobs, aug_dice dice, jitter_ranges ranges, const float *given, float *factors,
           int64_t *status, const double *sums, int parts, float max) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ work w;
  bool first = blockIdx.x == 0 && blockIdx.z == 0;
  if (threadIdx.x == 0) {
    work_of(j, dice, ranges, given, w);
    float *to = factors + (int64_t)blockIdx.y * JITTER_COLUMNS;
    if (factors && first && !given) jitter_give(&w.factors, to);
    for (int i = 0; factors && first && given && i < JITTER_COLUMNS; i++)
      to[i] = given[(int64_t)blockIdx.y * JITTER_COLUMNS + i];
  }
  if (first && blockIdx.y == 0)
    aug_judge(status, jobs.n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      value = jitter_bad(given + i * JITTER_COLUMNS);
      limit = JITTER_COLUMNS;
      return value != 0;
    });
  if (j.mask) {
    copy_mask(j);
    return;
  }
  __syncthreads();
  if (w.mean_at >= 0) {
    if (threadIdx.x < 32) {
      float m = mean_of(sums + ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * parts, parts, (int64_t)j.h * j.w);
      if (threadIdx.x == 0) w.mean = m;
    }
    __syncthreads();
  }
  by_layout(j, [&](auto channels, auto interleaved) {
    constexpr int C = decltype(channels)::value;
    constexpr bool I = decltype(interleaved)::value;
    if (j.dtype == SP_U8) paint<uint8_t, C, I>(j, w, 255.0f);
    else paint<float, C, I>(j, w, max);
  });
}

int jitter_launch(void *stream, const aug_jobs *jobs, int images, const aug_dice *dice, const jitter_ranges *ranges,
                  const float *given, float *factors, int64_t *status, double *sums, float max) {
  int64_t quads = ((int64_t)jobs->job[0].h * jobs->job[0].w + 3) / 4;
  int64_t blocks = (quads + THREADS * QUADS - 1) / (THREADS * QUADS);
  int parts = (int)(blocks < JITTER_PARTS ? blocks : JITTER_PARTS);
  unsigned n = (unsigned)jobs->n;
  if (sums)
    SP_LAUNCH(grey_sums, dim3((unsigned)parts, n, (unsigned)images), THREADS, 0, stream, *jobs, *dice, *ranges, given,
              sums, max);
  SP_LAUNCH(jitter, dim3((unsigned)(blocks < 65535 ? blocks : 65535), n, (unsigned)jobs->count), THREADS, 0, stream,
            *jobs, *dice, *ranges, given, factors, status, sums, parts, max);
  return cudaPeekAtLastError();
}
