/* SPDX-License-Identifier: MIT
 * color_jitter_kernels.cu - colours of images changed on CUDA: one kernel a batch, and where contrast is on one before
 * it, which leaves the sums of each image's grey values, a block's each, added in an order that no timing changes;
 * small images with contrast have one kernel for both (whole.cuh).
 */
#include "color_jitter_kernels.h"

#include "whole.cuh"
#include "work.cuh"

enum { THREADS = 256, QUADS = 2 /* for a thread */ };

/* Calls each(i, v) for the pixels i .. i + P - 1 that are this thread's; v: these of an image. The first are on their
 * way before the block waits for what is drawn, where EARLY is set: then they come from the input, later ones from
 * where from() says, unless that is nowhere. */
template <typename T, int C, int P, bool INTERLEAVED, bool EARLY, typename From, typename Each>
static __device__ __forceinline__ void each_some(const aug_job &j, From from, Each each) {
  int64_t pixels = (int64_t)j.h * j.w, step = P * (int64_t)gridDim.x * THREADS, sample = blockIdx.y * pixels * C;
  int64_t i = P * ((int64_t)blockIdx.x * THREADS + threadIdx.x);
  some<C, P> v;
  if (EARLY && i < pixels) load<C, P, INTERLEAVED>(v, [&](int q) {
      return part_of<C, P, INTERLEAVED>(static_cast<const T *>(j.in) + sample, i, pixels, q);
    });
  __syncthreads();
  const T *in = static_cast<const T *>(from());
  if (!in) return;
  in += sample;
  for (bool there = EARLY; i < pixels; i += step, there = false) {
    if (!there) load<C, P, INTERLEAVED>(v, [&](int q) { return part_of<C, P, INTERLEAVED>(in, i, pixels, q); });
    each(i, v);
  }
}

/* An image whose mean has steps before it is left as these made it, so that no step is done twice: the cache has it
 * still, which costs less than the steps. */
static __device__ __forceinline__ bool resumed(const work &w) { return w.mean_at > 0; }

template <typename T, int C, int P, bool INTERLEAVED>
static __device__ void paint(const aug_job &j, const work &w, const plan &p, float max) {
  int64_t pixels = (int64_t)j.h * j.w;
  T *out = static_cast<T *>(j.out) + blockIdx.y * pixels * C;
  walk list(p.after);
  auto from = [&] { return resumed(w) ? j.out : j.in; };
  each_some<T, C, P, INTERLEAVED, false>(j, from, [&](int64_t i, some<C, P> &v) {
    change<C, P, sizeof(T) == 1>(list, max, v);
    store<C, P, INTERLEAVED>(v, [&](int q) { return part_of<C, P, INTERLEAVED>(out, i, pixels, q); });
  });
}

template <typename T, int C, int P, bool INTERLEAVED>
static __device__ double sum_up(const aug_job &j, const work &w, const plan &p, float max) {
  int64_t pixels = (int64_t)j.h * j.w;
  T *out = static_cast<T *>(j.out) + blockIdx.y * pixels * C;
  typename sum_for<T>::type sum = 0;
  walk list(p.before);
  auto from = [&] { return w.mean_at < 0 ? nullptr : j.in; };
  each_some<T, C, P, INTERLEAVED, true>(j, from, [&](int64_t i, some<C, P> &v) {
    change<C, P, sizeof(T) == 1>(list, max, v);
    if (resumed(w)) store<C, P, INTERLEAVED>(v, [&](int q) { return part_of<C, P, INTERLEAVED>(out, i, pixels, q); });
    add_up(sum, v);
  });
  return (double)sum;
}

/* What blocks of one sample and image leave of what they drew, and behind that of all, their sums. */
static __device__ __forceinline__ work *kept_of(double *room) { return reinterpret_cast<work *>(room) + own(1); }
static __device__ __forceinline__ double *sums_of(double *room, int images, int parts) {
  return room + (int64_t)images * gridDim.y * JITTER_KEPT + own(parts);
}

/* blockIdx.z: images alone, no masks. */
static __global__ void __launch_bounds__(THREADS, AUG_PER_SM(THREADS, 5))
    grey_sums(const aug_jobs jobs, aug_dice dice, jitter_ranges ranges, const float *given, double *room, float max) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ work w;
  __shared__ plan p;
  __shared__ double parts[THREADS / 32];
  if (threadIdx.x == 0) {
    work_of(j, dice, ranges, given, w);
    plan_of(w, p);
    if (blockIdx.x == 0) *kept_of(room) = w;
  }
  double sum = 0;
  by_kind(j, [&](auto t, auto channels, auto pixels, auto interleaved) {
    typedef decltype(t) T;
    sum = sum_up<T, decltype(channels)::value, decltype(pixels)::value, decltype(interleaved)::value>(
        j, w, p, sizeof t == 1 ? 255.0f : max);
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

static __global__ void __launch_bounds__(THREADS, AUG_PER_SM(THREADS, 5))
    jitter(const aug_jobs jobs, aug_dice dice, jitter_ranges ranges, const float *given, float *factors,
           int64_t *status, double *room, int images, int parts, float max) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ work w;
  __shared__ plan p;
  if (threadIdx.x == 0) {
    if (room && !j.mask) {
      const work &kept = *kept_of(room);
      w.factors = kept.factors;
      w.steps = kept.steps;
      w.mean_at = kept.mean_at;
    } else {
      work_of(j, dice, ranges, given, w);
    }
    plan_of(w, p);
  }
  report(jobs, dice, given, w, factors, status);
  if (j.mask) {
    copy_mask<THREADS>(j);
    return;
  }
  if (room) {
    float mean = 0.0f;
    if (threadIdx.x / 32 == 1) mean = mean_of(sums_of(room, images, parts), parts, (int64_t)j.h * j.w);
    __syncthreads(); /* behind the list */
    if (threadIdx.x == 32 && w.mean_at >= 0) give_mean(p.after, p.after->by, mean);
  }
  by_kind(j, [&](auto t, auto channels, auto pixels, auto interleaved) {
    typedef decltype(t) T;
    paint<T, decltype(channels)::value, decltype(pixels)::value, decltype(interleaved)::value>(
        j, w, p, sizeof t == 1 ? 255.0f : max);
  });
}

int jitter_launch(void *stream, const aug_jobs *jobs, int images, const aug_dice *dice, const jitter_ranges *ranges,
                  const float *given, float *factors, int64_t *status, double *sums, float max) {
  size_t bytes = sums ? whole_bytes(jobs, images) : 0;
  if (bytes) {
    whole_launch(stream, jobs, images, bytes, dice, ranges, given, factors, status, sums, max);
    return cudaPeekAtLastError();
  }
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
