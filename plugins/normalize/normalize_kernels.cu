/* SPDX-License-Identifier: MIT
 * normalize_kernels.cu - (x - mean) / std on CUDA: one kernel a batch.
 *
 * A sample is runs of elements: planes, which have one mean and std each, or one run of all its elements. A block does
 * a tile of a run, by fours that begin where both images are aligned to four elements; what is before and behind them
 * in a run is left to the run's first block.
 */
#include "normalize_kernels.h"

#include "../aug/kit.cuh"

enum { THREADS = 256, EACH = 4, TILE = THREADS * EACH }; /* quads */

/* How a tensor is cut: runs of a sample, elements of a run. */
struct runs {
  int64_t n, count;
};

static __host__ __device__ __forceinline__ runs runs_of(const aug_job &j, int terms) {
  if (j.pix == 1 && terms > 1) return {j.planes, (int64_t)j.h * j.w};
  return {1, j.planes * j.h * j.w * j.pix};
}

static __host__ __device__ __forceinline__ int64_t tiles_of(const runs &r) { return (r.count / 4 + TILE) / TILE; }

static __device__ __forceinline__ float value(float x, float) { return x; }
static __device__ __forceinline__ float value(uint8_t x, float by) { return __fmul_rn((float)x, by); }

static __device__ __forceinline__ float term(float x, float mean, float std) {
  return __fdiv_rn(__fsub_rn(x, mean), std);
}

/* `mean` and `std` are of channel c, and of the three after it where they differ from channel to channel. */
template <typename T, bool SAME>
static __device__ __forceinline__ void make(float *out, const aug_quad<T> &x, const float *mean, const float *std,
                                            int c, float by) {
  aug_quad<float> y;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    int i = SAME ? c : c + k;
    y.v[k] = term(value(x.v[k], by), mean[i], std[i]);
  }
  aug_store(out, 0, 4, y.v);
}

static __device__ __forceinline__ int channel(uint32_t e, int pix) {
  return (int)(pix == 3 ? e % 3 : e % (uint32_t)pix);
}

/* SAME: the run has one mean and std, those of channel `run` or, where there is one for all, 0. */
template <typename T, bool SAME>
static __device__ __forceinline__ void one_run(const aug_job &j, const runs &r, int64_t run, int64_t tile, int c,
                                               const float *mean, const float *std, float by) {
  int64_t from = (blockIdx.y * r.n + run) * r.count;
  const T *in = static_cast<const T *>(j.in) + from;
  float *out = static_cast<float *>(j.out) + from;
  int head = (int)(-from & 3);
  head = head < r.count ? head : (int)r.count;
  int64_t quads = (r.count - head) / 4, at = tile * TILE, tail = head + quads * 4;
  int first = SAME ? 0 : (int)((head + at * 4) % j.pix), left = (int)(quads - at < TILE ? quads - at : (int64_t)TILE);
  const T *x_at = in + head + at * 4;
  float *y_at = out + head + at * 4;
  bool together = reinterpret_cast<uintptr_t>(x_at) % sizeof(aug_quad<T>) == 0;
  aug_quad<T> x[EACH];
#pragma unroll
  for (int k = 0; k < EACH; k++) {
    int q = k * THREADS + (int)threadIdx.x;
    if (q >= left) continue;
    if (together) {
      x[k] = *reinterpret_cast<const aug_quad<T> *>(x_at + q * 4);
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) x[k].v[i] = x_at[q * 4 + i];
    }
  }
#pragma unroll
  for (int k = 0; k < EACH; k++) {
    int q = k * THREADS + (int)threadIdx.x;
    if (!SAME) c = channel((uint32_t)(first + q * 4), j.pix);
    if (q < left) make<T, SAME>(y_at + q * 4, x[k], mean, std, c, by);
  }
  if (tile) return;
  int64_t i = threadIdx.x < (unsigned)head ? (int64_t)threadIdx.x : tail + threadIdx.x - head;
  if (i >= r.count) return;
  if (!SAME) c = (int)(i % j.pix);
  out[i] = term(value(in[i], by), mean[c], std[c]);
}

template <typename T>
static __device__ void all_runs(const aug_job &j, const float *mean, const float *std, int n, float by) {
  runs r = runs_of(j, n);
  int64_t tiles = tiles_of(r), all = r.n * tiles;
#pragma unroll 1
  for (int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    int64_t run = r.n == 1 ? 0 : i / tiles, tile = i - run * tiles;
    if (j.pix == 1 || n == 1) one_run<T, true>(j, r, run, tile, n > 1 ? (int)run : 0, mean, std, by);
    else one_run<T, false>(j, r, run, tile, 0, mean, std, by);
  }
}

static __global__ void __launch_bounds__(THREADS, 3) normalize(const aug_jobs jobs, const norm_terms t) {
  __shared__ float mean[NORM_MAX + 3], std[NORM_MAX + 3]; /* the last ones lead on to the next pixel */
  for (int i = (int)threadIdx.x; i < t.n + 3; i += THREADS) {
    mean[i] = t.mean[i % t.n];
    std[i] = t.std[i % t.n];
  }
  __shared__ aug_job j; /* not in as many registers as it has members */
  if (threadIdx.x == 0) j = jobs.job[blockIdx.z];
  __syncthreads();
  if (j.dtype == SP_U8) all_runs<uint8_t>(j, mean, std, t.n, t.by);
  else all_runs<float>(j, mean, std, t.n, t.by);
}

int norm_launch(void *stream, const aug_jobs *jobs, const norm_terms *terms) {
  int64_t most = 1;
  for (int i = 0; i < jobs->count; i++) {
    runs r = runs_of(jobs->job[i], terms->n);
    most = most > r.n * tiles_of(r) ? most : r.n * tiles_of(r);
  }
  dim3 grid((unsigned)(most < (1 << 30) ? most : 1 << 30), (unsigned)jobs->n, (unsigned)jobs->count);
  SP_LAUNCH(normalize, grid, THREADS, 0, stream, *jobs, *terms);
  return cudaPeekAtLastError();
}
