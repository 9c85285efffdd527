/* SPDX-License-Identifier: MIT
 * whole.cuh - colours of small images changed on CUDA by one kernel: PARTS blocks share an image and keep it in shared
 * memory while they wait for its mean.
 *
 * A block waits only where all of them have begun, so that nothing waits for what may never run. Else it leaves its
 * part, done as far as the mean, in the output, for the last of them to go on with.
 */
#ifndef COLOR_JITTER_WHOLE_CUH
#define COLOR_JITTER_WHOLE_CUH

#include "work.cuh"

enum { PARTS = 16, MANY = 256 /* threads */, PER_SM = 4, AHEAD = 4 };

/* What the blocks of a sample and image tell each other: how many have begun and summed up, whose parts are left. */
struct __align__(16) meeting {
  uint32_t begun, summed, left;
};
enum { MEETING = 2 /* doubles */ };
static_assert(sizeof(meeting) == MEETING * sizeof(double) && MEETING + PARTS <= JITTER_PARTS, "as the plan has it");

/* P elements to shared memory, asynchronously where that can be. */
template <int P, typename T> static __device__ __forceinline__ void fetch(T *to, const T *from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int size = P * (int)sizeof(T);
  if constexpr (size == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
  else if constexpr (size == 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
  else *to = *from;
#else
#pragma unroll
  for (int k = 0; k < P; k++) to[k] = from[k];
#endif
}

/* P elements from shared memory. */
template <int P, typename T> static __device__ __forceinline__ void move(T *to, const T *from) {
  if constexpr (P == 4) *reinterpret_cast<aug_quad<T> *>(to) = *reinterpret_cast<const aug_quad<T> *>(from);
  else *to = *from;
}

/* Ends a group of fetches; waits for all groups but the last AHEAD - 1. */
static __device__ __forceinline__ void fetch_end() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
static __device__ __forceinline__ void fetch_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
#endif
}

/* A block's pixels of a sample: this thread's are `step` apart from `start` on, in slots of shared memory. Those of a
 * warp lie there as they do in an interleaved image: its lanes move side by side what they do not use themselves. */
template <typename T, int C, int P, bool INTERLEAVED> struct share {
  static constexpr int step = P * PARTS * MANY, slot = C * MANY * P;
  const T *in;
  T *out, *room;
  int pixels, start, lane;

  __device__ __forceinline__ share(const aug_job &j, unsigned char *space) {
    pixels = j.h * j.w;
    int64_t sample = (int64_t)blockIdx.y * pixels * C;
    in = static_cast<const T *>(j.in) + sample;
    out = static_cast<T *>(j.out) + sample;
    keep(in);
    keep(out);
    lane = (int)threadIdx.x % 32;
    room = reinterpret_cast<T *>(space) + (INTERLEAVED ? (threadIdx.x / 32) * 32 * C * P : threadIdx.x * P);
    start = P * ((int)blockIdx.x * MANY + (int)threadIdx.x);
  }
  template <typename U> __device__ __forceinline__ U *kept(U *at, int q) const {
    return INTERLEAVED ? at + (lane * C + q) * P : at + q * MANY * P;
  }
  /* The first element of the warp's pixels, of an interleaved image. */
  __device__ __forceinline__ int first_of(int i) const { return (i - lane * P) * C; }
  __device__ __forceinline__ void ask(int i, int end, T *at) const {
#pragma unroll
    for (int q = 0; q < C; q++)
      if (INTERLEAVED) {
        int e = first_of(i) + (q * 32 + lane) * P;
        if (e < end * C) fetch<P>(at + (q * 32 + lane) * P, in + e);
      } else if (i < end) {
        fetch<P>(at + q * MANY * P, part_of<C, P, false>(in, i, pixels, q));
      }
    fetch_end();
  }
  /* What the warp's lanes hold from pixel i of this one on. */
  __device__ __forceinline__ void give(int i, const T *at) const {
#pragma unroll
    for (int q = 0; q < C; q++) {
      int e = first_of(i) + (q * 32 + lane) * P;
      if (e < pixels * C) move<P>(out + e, at + (q * 32 + lane) * P);
    }
  }
  __device__ __forceinline__ void ask_ahead() const {
#pragma unroll
    for (int k = 0; k < AHEAD; k++) ask(start + k * step, pixels, room + k * slot);
  }
};

/* The sum of the block in its first thread; all threads call it. */
static __device__ __noinline__ double block_sum(double sum) {
  __shared__ double parts[MANY / 32];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  return threadIdx.x < 32 ? warp_sum(threadIdx.x < MANY / 32 ? parts[threadIdx.x] : 0.0) : 0.0;
}

static __device__ __forceinline__ uint32_t look(const uint32_t *p) {
  return *static_cast<const volatile uint32_t *>(p);
}

/* Those that have not begun are waited for as long as a block takes, about: they may come when one ends. */
static __device__ __forceinline__ bool all_begun(const meeting *m) {
  for (int looks = 0; looks < 64; looks++)
    if (look(&m->begun) == PARTS) return true;
  return false;
}

/* Leaves the block's sum where the others of its sample find it, and gives contrast the mean of all. Returns whose
 * parts are this block's too, for they left: a bit each. */
static __device__ __noinline__ uint32_t meet(meeting *m, double *sums, double sum, int64_t pixels, step *contrast) {
  __shared__ uint32_t left;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      sums[blockIdx.x] = sum;
      __threadfence();
      left = 0;
      if (atomicAdd(&m->summed, 1u) == PARTS - 1) left = look(&m->left);
      else
        while (look(&m->summed) < PARTS) {
        }
      __threadfence();
    }
    __syncwarp();
    sum = threadIdx.x < PARTS ? __ldcg(sums + threadIdx.x) : 0.0;
    float mean = (float)__ddiv_rn(warp_sum(sum), (double)pixels);
    if (threadIdx.x == 0) give_mean(contrast, contrast->by, mean);
  }
  __syncthreads();
  return left;
}

/* Leaves the block's part, as far as it is done, and its sum. */
template <typename T, int C, int P, bool INTERLEAVED>
static __device__ __noinline__ void leave(share<T, C, P, INTERLEAVED> s, meeting *m, double *sums, double sum) {
  const T *slot = s.room;
  for (int i = s.start; i < s.pixels; i += s.step, slot += s.slot) {
    some<C, P> v;
    load<C, P, INTERLEAVED>(v, [&](int q) { return s.kept(slot, q); });
    store<C, P, INTERLEAVED>(v, [&](int q) { return part_of<C, P, INTERLEAVED>(s.out, i, s.pixels, q); });
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x) return;
  sums[blockIdx.x] = sum;
  atomicOr(&m->left, 1u << blockIdx.x);
  __threadfence();
  atomicAdd(&m->summed, 1u);
}

/* Goes on with the parts whose bits are set in `left`. */
template <typename T, int C, int P, bool INTERLEAVED>
static __device__ __noinline__ void take_over(share<T, C, P, INTERLEAVED> s, uint32_t left, const step *after,
                                              float max) {
  walk list(after);
  for (int part = 0; left >> part; part++) {
    if (!(left >> part & 1u)) continue;
    for (int i = P * (part * MANY + (int)threadIdx.x); i < s.pixels; i += s.step) {
      some<C, P> v;
      auto at = [&](int q) { return part_of<C, P, INTERLEAVED>(s.out, i, s.pixels, q); };
      load<C, P, INTERLEAVED>(v, at);
      change<C, P, sizeof(T) == 1>(list, max, v);
      store<C, P, INTERLEAVED>(v, at);
    }
  }
}

template <typename T, int C, int P, bool INTERLEAVED>
static __device__ __forceinline__ void run_whole(const aug_job &j, const work &w, plan &p, unsigned char *space,
                                                 float max, meeting *m, double *sums) {
  const share<T, C, P, INTERLEAVED> s(j, space);
  int missing = s.pixels;
  typename sum_for<T>::type sum = 0;
  bool last = w.mean_at < 0;
  walk list(last ? p.after : p.before);
  uint32_t left = 0;
#pragma unroll 1
  for (;;) {
    T *slot = s.room;
#pragma unroll 1
    for (int i = s.start; i - P * s.lane < s.pixels; i += s.step, slot += s.slot) {
      fetch_wait();
      if (INTERLEAVED) __syncwarp();
      some<C, P> v;
      auto kept = [&](int q) { return s.kept(slot, q); };
      bool there = i < s.pixels;
      if (there) load<C, P, INTERLEAVED>(v, kept);
      s.ask(i + AHEAD * s.step, missing, slot + AHEAD * s.slot);
      if (there) {
        change<C, P, sizeof(T) == 1>(list, max, v);
        if (last && !INTERLEAVED)
          store<C, P, INTERLEAVED>(v, [&](int q) { return part_of<C, P, INTERLEAVED>(s.out, i, s.pixels, q); });
        else if (last || w.mean_at > 0) store<C, P, INTERLEAVED>(v, kept);
        if (!last) add_up(sum, v);
      }
      if (last && INTERLEAVED) {
        __syncwarp();
        s.give(i, slot);
      }
    }
    if (last) break;
    double all = block_sum((double)sum);
    if (!__syncthreads_or(threadIdx.x == 0 && all_begun(m))) {
      leave(s, m, sums, all);
      return;
    }
    left = meet(m, sums, all, s.pixels, p.after);
    list = walk(p.after);
    missing = 0;
    last = true;
  }
  if (left) take_over(s, left, p.after, max);
}

/* Nobody has begun. */
static __global__ void prepare(meeting *m, int n) {
  for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) m[i] = {0, 0, 0};
}

/* It may begin while `prepare` runs, but only its fetches come before the end of that. */
static __global__ void __launch_bounds__(MANY, AUG_PER_SM(MANY, PER_SM))
    whole(const aug_jobs jobs, aug_dice dice, jitter_ranges ranges, const float *given, float *factors, int64_t *status,
          double *room, int images, float max) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ work w;
  __shared__ plan p;
  SP_DYNAMIC_SHARED(unsigned char, space);
  meeting *m = reinterpret_cast<meeting *>(room) + own(1);
  double *sums = room + (int64_t)images * gridDim.y * MEETING + own(PARTS);
  if (!j.mask)
    by_kind(j, [&](auto t, auto channels, auto pixels, auto interleaved) {
      typedef decltype(t) T;
      share<T, decltype(channels)::value, decltype(pixels)::value, decltype(interleaved)::value>(j, space).ask_ahead();
    });
  sp_launch_wait();
  if (threadIdx.x == 0) {
    if (!j.mask) atomicAdd(&m->begun, 1u);
    work_of(j, dice, ranges, given, w);
    plan_of(w, p);
  }
  report(jobs, dice, given, w, factors, status);
  if (j.mask) {
    copy_mask<MANY>(j);
    return;
  }
  __syncthreads();
  by_kind(j, [&](auto t, auto channels, auto pixels, auto interleaved) {
    typedef decltype(t) T;
    run_whole<T, decltype(channels)::value, decltype(pixels)::value, decltype(interleaved)::value>(
        j, w, p, space, sizeof t == 1 ? 255.0f : max, m, sums);
  });
}

/* Bytes of shared memory that a block of `whole` keeps of images; 0: they are too large. The size of the batch has no
 * say: the order of the sums would depend on it. */
static inline size_t whole_bytes(const aug_jobs *jobs, int images) {
  int64_t pixels = (int64_t)jobs->job[0].h * jobs->job[0].w, a_round = 4 * PARTS * MANY, most = 0;
  int device = 0, room = 0;
  for (int i = 0; i < images; i++) {
    const aug_job *j = &jobs->job[i];
    int64_t bytes = (pixels + a_round - 1) / a_round * 4 * MANY * j->planes * j->pix * (j->dtype == SP_U8 ? 1 : 4);
    most = bytes > most ? bytes : most;
  }
  if (most > 56 * 1024 /* PER_SM of them find room */ || cudaGetDevice(&device) ||
      cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, device))
    return 0;
  return most + 2048 <= room ? (size_t)most : 0;
}

static inline void whole_launch(void *stream, const aug_jobs *jobs, int images, size_t bytes, const aug_dice *dice,
                                const jitter_ranges *ranges, const float *given, float *factors, int64_t *status,
                                double *room, float max) {
  unsigned n = (unsigned)jobs->n;
  /* more than 48 KiB must be asked for, on each device; a failure shows at the launch */
  cudaFuncSetAttribute(reinterpret_cast<const void *>(&whole), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  SP_LAUNCH(prepare, 1, 256, 0, stream, reinterpret_cast<meeting *>(room), images * (int)n);
  SP_LAUNCH_EARLY(whole, dim3(PARTS, n, (unsigned)jobs->count), MANY, bytes, stream, *jobs, *dice, *ranges, given,
                  factors, status, room, images, max);
}

#endif
