/* SPDX-License-Identifier: MIT
 * color_jitter_kernels.cu - colours of images changed on CUDA: one kernel a batch, and where contrast is on one before it,
 * which leaves the sums of each image's grey values, a block's each, added in an order that no timing changes.
 *
 * Colours know no rows: an image is so many pixels, and a thread works on four that lie side by side, or, where an image
 * cannot be moved by fours, on one.
 */
#include "color_jitter_kernels.h"

#include "../aug/kit.cuh"
#include "turn.cuh"

enum { THREADS = 256, QUADS = 2 /* for a thread */ };

/* What a block does to its sample, and to its tensor of it. */
struct __align__(16) work {
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
}

static_assert(sizeof(work) == JITTER_KEPT * sizeof(double), "as the plan has it");

/* P pixels of one or three channels. A byte is held as itself and TURN_BYTE, so that it is the lowest one of its float's
 * bits. */
template <int C, int P> struct some { float c[C][P]; };

/* P elements that lie side by side, where P is above 1 at an address for one access. */
template <int P> static __device__ __forceinline__ void get(const uint8_t *p, float *v) {
  uint32_t bytes = P == 4 ? *reinterpret_cast<const uint32_t *>(p) : *p;
#pragma unroll
  for (int k = 0; k < P; k++)
    v[k] = __uint_as_float(__byte_perm(bytes, __float_as_uint(TURN_BYTE), 0x7440u + (unsigned)k));
}

template <int P> static __device__ __forceinline__ void get(const float *p, float *v) {
  if constexpr (P == 4) {
    float4 q = *reinterpret_cast<const float4 *>(p);
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
  } else {
    v[0] = *p;
  }
}

template <int P> static __device__ __forceinline__ void put(uint8_t *p, const float *v) {
  uint32_t b[P];
#pragma unroll
  for (int k = 0; k < P; k++) b[k] = __float_as_uint(v[k]);
  if constexpr (P == 4)
    *reinterpret_cast<uint32_t *>(p) =
        __byte_perm(__byte_perm(b[0], b[1], 0x40u), __byte_perm(b[2], b[3], 0x40u), 0x5410u);
  else *p = (uint8_t)b[0];
}

template <int P> static __device__ __forceinline__ void put(float *p, const float *v) {
  if constexpr (P == 4) *reinterpret_cast<float4 *>(p) = make_float4(v[0], v[1], v[2], v[3]);
  else *p = v[0];
}

/* Pixels i .. i + P - 1 of a sample. Interleaved: of a channels-last image. */
template <typename T, int C, int P, bool INTERLEAVED>
static __device__ __forceinline__ void load(const T *p, int64_t i, int64_t pixels, some<C, P> &y) {
  float v[C * P];
#pragma unroll
  for (int q = 0; q < C; q++) get<P>(INTERLEAVED ? p + i * C + P * q : p + q * pixels + i, v + P * q);
#pragma unroll
  for (int e = 0; e < C * P; e++) (INTERLEAVED ? y.c[e % C][e / C] : y.c[e / P][e % P]) = v[e];
}

template <typename T, int C, int P, bool INTERLEAVED>
static __device__ __forceinline__ void store(T *p, int64_t i, int64_t pixels, const some<C, P> &x) {
  float v[C * P];
#pragma unroll
  for (int e = 0; e < C * P; e++) v[e] = INTERLEAVED ? x.c[e % C][e / C] : x.c[e / P][e % P];
#pragma unroll
  for (int q = 0; q < C; q++) put<P>(INTERLEAVED ? p + i * C + P * q : p + q * pixels + i, v + P * q);
}

/* What is held, as a number to compute with. */
template <bool BYTES> static __device__ __forceinline__ float number(float v) {
  return BYTES ? __fsub_rn(v, TURN_BYTE) : v;
}
static __device__ __forceinline__ float cut(float v) { return __fadd_rz(v, TURN_BYTE); }

/* by * v + other, as pixel_blend has it, of a number to one that is held. Bytes: what is mixed of both leaves 0..255 only
 * where by is above 1; NaN, which only huge factors make, becomes 0. */
template <bool BYTES, bool MIXED>
static __device__ __forceinline__ float blend(float v, float by, float other, float max) {
  v = __fadd_rn(__fmul_rn(by, v), other);
  if (!BYTES) return pixel_clamp(v, max);
  return cut(MIXED ? v : fminf(fmaxf(v, 0.0f), 255.0f));
}

/* Of numbers, one that is held. */
template <bool BYTES> static __device__ __forceinline__ float grey_of(float r, float g, float b) {
  float v = pixel_grey(r, g, b, 0);
  return BYTES ? cut(v) : v;
}

/* A step that blends. */
template <int C, int P, bool BYTES, bool MIXED>
static __device__ __forceinline__ void blend_all(int op, float by, float mean, float max, some<C, P> &v) {
  float rest = __fsub_rn(1.0f, by), other[P];
#pragma unroll
  for (int e = 0; e < C * P; e++) v.c[e / P][e % P] = number<BYTES>(v.c[e / P][e % P]);
  if (C == 3 && op == JITTER_SATURATION) {
#pragma unroll
    for (int k = 0; k < P; k++)
      other[k] = __fmul_rn(rest, number<BYTES>(grey_of<BYTES>(v.c[0][k], v.c[1 % C][k], v.c[2 % C][k])));
  } else {
#pragma unroll
    for (int k = 0; k < P; k++) other[k] = op == JITTER_CONTRAST ? __fmul_rn(rest, mean) : 0.0f;
  }
#pragma unroll
  for (int e = 0; e < C * P; e++) v.c[e / P][e % P] = blend<BYTES, MIXED>(v.c[e / P][e % P], by, other[e % P], max);
}

template <int P, bool BYTES> static __device__ __forceinline__ void turn_all(float by, bool wide, some<3, P> &v) {
  pixel x[P];
#pragma unroll
  for (int k = 0; k < P; k++) x[k] = {v.c[0][k], v.c[1][k], v.c[2][k]};
  if constexpr (BYTES) {
#pragma unroll
    for (int k = 0; k < P; k++) x[k] = turn_bytes(x[k], by);
  } else {
    turn_floats(x, by, wide);
  }
#pragma unroll
  for (int k = 0; k < P; k++) v.c[0][k] = x[k].r, v.c[1][k] = x[k].g, v.c[2][k] = x[k].b;
}

/* The steps in `steps`, up to its end or `to`. */
template <int C, int P, bool BYTES>
static __device__ __forceinline__ void change(const work &w, uint32_t steps, int to, float max, some<C, P> &v) {
#pragma unroll 1
  for (int i = 0; i < to; i++, steps >>= 4) {
    int op = (int)(steps & 15u);
    if (op == JITTER_END) return;
    float by = w.factors.by[op];
    if (C == 3 && op == JITTER_HUE) {
      if constexpr (C == 3) turn_all<P, BYTES>(by, max > 1.0f, v);
    } else if (BYTES && by <= 1.0f) {
      blend_all<C, P, BYTES, true>(op, by, w.mean, max, v);
    } else {
      blend_all<C, P, BYTES, false>(op, by, w.mean, max, v);
    }
  }
}

/* Calls each(i, v) for the pixels i .. i + P - 1 that are this thread's; v: these of an image. The first are on their way
 * before the block waits for what is drawn, where EARLY is set: then they come from the input, later ones from where from()
 * says, unless that is nowhere. */
template <typename T, int C, int P, bool INTERLEAVED, bool EARLY, typename From, typename Each>
static __device__ __forceinline__ void each_some(const aug_job &j, From from, Each each) {
  int64_t pixels = (int64_t)j.h * j.w, step = P * (int64_t)gridDim.x * THREADS, sample = blockIdx.y * pixels * C;
  int64_t i = P * ((int64_t)blockIdx.x * THREADS + threadIdx.x);
  some<C, P> v;
  if (EARLY && i < pixels) load<T, C, P, INTERLEAVED>(static_cast<const T *>(j.in) + sample, i, pixels, v);
  __syncthreads();
  const T *in = static_cast<const T *>(from());
  if (!in) return;
  in += sample;
  for (bool there = EARLY; i < pixels; i += step, there = false) {
    if (!there) load<T, C, P, INTERLEAVED>(in, i, pixels, v);
    each(i, v);
  }
}

/* An image whose mean has steps before it is left as these made it, so that no step is done twice: the cache has it still,
 * which costs less than the steps. */
static __device__ __forceinline__ bool resumed(const work &w) { return w.mean_at > 0; }

template <typename T, int C, int P, bool INTERLEAVED>
static __device__ void paint(const aug_job &j, const work &w, float max) {
  constexpr bool BYTES = sizeof(T) == 1;
  int64_t pixels = (int64_t)j.h * j.w;
  T *out = static_cast<T *>(j.out) + blockIdx.y * pixels * C;
  auto from = [&] { return resumed(w) ? j.out : j.in; };
  each_some<T, C, P, INTERLEAVED, false>(j, from, [&](int64_t i, some<C, P> &v) {
    change<C, P, BYTES>(w, resumed(w) ? w.steps >> 4 * w.mean_at : w.steps, JITTER_OPS, max, v);
    store<T, C, P, INTERLEAVED>(out, i, pixels, v);
  });
}

/* Bytes have whole sums. */
static __device__ __forceinline__ uint32_t sum_of(uint8_t, float v) { return __float_as_uint(v) & 0xffu; }
static __device__ __forceinline__ double sum_of(float, float v) { return (double)v; }

template <typename T, int C, int P, bool INTERLEAVED>
static __device__ double sum_up(const aug_job &j, const work &w, float max) {
  constexpr bool BYTES = sizeof(T) == 1;
  int64_t pixels = (int64_t)j.h * j.w;
  T *out = static_cast<T *>(j.out) + blockIdx.y * pixels * C;
  decltype(sum_of(T(), 0.0f)) sum = 0;
  auto from = [&] { return w.mean_at < 0 ? nullptr : j.in; };
  each_some<T, C, P, INTERLEAVED, true>(j, from, [&](int64_t i, some<C, P> &v) {
    change<C, P, BYTES>(w, w.steps, w.mean_at, max, v);
    if (resumed(w)) store<T, C, P, INTERLEAVED>(out, i, pixels, v);
#pragma unroll
    for (int k = 0; k < P; k++) {
      float grey = v.c[0][k];
      if (C == 3)
        grey = grey_of<BYTES>(number<BYTES>(grey), number<BYTES>(v.c[1 % C][k]), number<BYTES>(v.c[2 % C][k]));
      sum += sum_of(T(), grey);
    }
  });
  return (double)sum;
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

/* Where blocks of one sample and image leave what they drew, and behind that of all, their sums. */
static __device__ __forceinline__ int64_t own(int64_t of_each) {
  return ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * of_each;
}
static __device__ __forceinline__ work *kept_of(double *room) { return reinterpret_cast<work *>(room) + own(1); }
static __device__ __forceinline__ double *sums_of(double *room, int images, int parts) {
  return room + (int64_t)images * gridDim.y * JITTER_KEPT + own(parts);
}

/* blockIdx.z: images alone, no masks. */
static __global__ void __launch_bounds__(THREADS, AUG_PER_SM(THREADS, 5))
    grey_sums(const aug_jobs jobs, aug_dice dice, jitter_ranges ranges, const float *given, double *room, float max) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ work w;
  __shared__ double parts[THREADS / 32];
  if (threadIdx.x == 0) {
    work_of(j, dice, ranges, given, w);
    if (blockIdx.x == 0) *kept_of(room) = w;
  }
  double sum = 0;
  by_kind(j, [&](auto t, auto channels, auto pixels, auto interleaved) {
    typedef decltype(t) T;
    sum = sum_up<T, decltype(channels)::value, decltype(pixels)::value, decltype(interleaved)::value>(
        j, w, sizeof t == 1 ? 255.0f : max);
  });
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  for (int i = 1; i < THREADS / 32; i++) sum = __dadd_rn(sum, parts[i]);
  sums_of(room, (int)gridDim.z, (int)gridDim.x)[blockIdx.x] = sum;
}

/* The mean from `parts` sums; one whole warp calls it. */
static __device__ float mean_of(const double *sums, int parts, int64_t pixels) {
  double sum = 0;
  for (int i = (int)threadIdx.x % 32; i < parts; i += 32) sum = __dadd_rn(sum, sums[i]);
  return (float)__ddiv_rn(warp_sum(sum), (double)pixels);
}

static __device__ void copy_mask(const aug_job &j) {
  aug_by_size(j.dtype, [&](auto t) {
    typedef decltype(t) T;
    const T *in = static_cast<const T *>(j.in) + (int64_t)blockIdx.y * j.h * j.w;
    T *out = static_cast<T *>(j.out) + (int64_t)blockIdx.y * j.h * j.w;
    bool whole = by_quads(j, sizeof(aug_quad<T>));
    int64_t pixels = (int64_t)j.h * j.w, step = 4 * (int64_t)gridDim.x * THREADS;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * THREADS + threadIdx.x); i < pixels; i += step)
      if (whole) *reinterpret_cast<aug_quad<T> *>(out + i) = *reinterpret_cast<const aug_quad<T> *>(in + i);
      else
        for (int64_t e = i; e < i + 4 && e < pixels; e++) out[e] = in[e];
  });
}

static __global__ void __launch_bounds__(THREADS, AUG_PER_SM(THREADS, 5))
    jitter(const aug_jobs jobs, aug_dice dice, jitter_ranges ranges, const float *given, float *factors,
           int64_t *status, double *room, int images, int parts, float max) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ work w;
  bool first = blockIdx.x == 0 && blockIdx.z == 0;
  if (threadIdx.x == 0) {
    if (room && !j.mask) {
      const work &kept = *kept_of(room);
      w.factors = kept.factors;
      w.steps = kept.steps;
      w.mean_at = kept.mean_at;
    } else {
      work_of(j, dice, ranges, given, w);
    }
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
  if (room && threadIdx.x / 32 == 1) { /* the second warp */
    float m = mean_of(sums_of(room, images, parts), parts, (int64_t)j.h * j.w);
    if (threadIdx.x % 32 == 0) w.mean = m;
  }
  by_kind(j, [&](auto t, auto channels, auto pixels, auto interleaved) {
    typedef decltype(t) T;
    paint<T, decltype(channels)::value, decltype(pixels)::value, decltype(interleaved)::value>(
        j, w, sizeof t == 1 ? 255.0f : max);
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
            *jobs, *dice, *ranges, given, factors, status, sums, images, parts, max);
  return cudaPeekAtLastError();
}
