/* SPDX-License-Identifier: MIT
 * normalize_kernels.cu - (x - mean) / std on CUDA: one kernel a batch.
 *
 * A sample is runs of elements: planes, which have one mean and std each, or one run of all its elements. A block does
 * a tile of a run, by fours that begin where both images are aligned to four elements; what is before and behind them
 * in a run is left to the run's first block. Bytes are looked up: a block makes the results of all 256 values for each
 * mean and std before, where that are few, which divides less often than once an element.
 */
#include "normalize_kernels.h"

#include "../../kits/aug/kit.cuh"

enum { THREADS = 256, EACH = 4, TILE = THREADS * EACH /* quads */, TABLES = 8 /* rows of 256 results */ };

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

/* What a block looks up: term i is of channel i, and the last three lead on to the next pixel. */
template <bool TABLE> struct lookup {
  float mean[NORM_MAX + 3], std[NORM_MAX + 3];
  float table[TABLE ? TABLES : 1][256];
};

/* The terms from c on: the same for four elements, or theirs. */
template <typename T, bool SAME, bool TABLE>
static __device__ __forceinline__ float4 make(const aug_quad<T> &x, const lookup<TABLE> &t, int c, float by) {
  float y[4];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    int i = SAME ? c : c + k;
    if constexpr (TABLE) y[k] = t.table[i][x.v[k]];
    else y[k] = term(value(x.v[k], by), t.mean[i], t.std[i]);
  }
  return make_float4(y[0], y[1], y[2], y[3]);
}

static __device__ __forceinline__ int channel(uint32_t e, int pix) {
  return (int)(pix == 3 ? e % 3 : e % (uint32_t)pix);
}

/* SAME: the run has one mean and std, those of channel `run` or, where there is one for all, 0. */
template <typename T, bool SAME, bool TABLE>
static __device__ __forceinline__ void one_run(const aug_job &j, const runs &r, int64_t run, int64_t tile, int c,
                                               const lookup<TABLE> &t, float by) {
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
  bool packed = reinterpret_cast<uintptr_t>(y_at) % sizeof(float4) == 0;
#pragma unroll
  for (int k = 0; k < EACH; k++) {
    int q = k * THREADS + (int)threadIdx.x;
    if (!SAME) c = channel((uint32_t)(first + q * 4), j.pix);
    if (q >= left) continue;
    float4 y = make<T, SAME, TABLE>(x[k], t, c, by);
    float *to = y_at + q * 4;
    if (TABLE && packed) __stwb(reinterpret_cast<float4 *>(to), y); /* a plain one would be made element by element */
    else to[0] = y.x, to[1] = y.y, to[2] = y.z, to[3] = y.w;
  }
  if (tile) return;
  int64_t i = threadIdx.x < (unsigned)head ? (int64_t)threadIdx.x : tail + threadIdx.x - head;
  if (i >= r.count) return;
  if (!SAME) c = (int)(i % j.pix);
  out[i] = term(value(in[i], by), t.mean[c], t.std[c]);
}

template <typename T, bool TABLE>
static __device__ __forceinline__ void all_runs(const aug_job &j, const lookup<TABLE> &t, int n, float by) {
  runs r = runs_of(j, n);
  int64_t tiles = tiles_of(r), all = r.n * tiles;
#pragma unroll 1
  for (int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    int64_t run = r.n == 1 ? 0 : i / tiles, tile = i - run * tiles;
    if (j.pix == 1 || n == 1) one_run<T, true, TABLE>(j, r, run, tile, n > 1 ? (int)run : 0, t, by);
    else one_run<T, false, TABLE>(j, r, run, tile, 0, t, by);
  }
}

/* TABLE: all images are bytes, with few terms. */
template <bool TABLE>
static __global__ void __launch_bounds__(THREADS, AUG_PER_SM(THREADS, TABLE ? 8 : 4))
    normalize(const aug_jobs jobs, const norm_terms terms) {
  __shared__ lookup<TABLE> t;
  int rows = terms.n + 3;
  for (int i = (int)threadIdx.x; i < rows; i += THREADS) {
    t.mean[i] = terms.mean[i % terms.n];
    t.std[i] = terms.std[i % terms.n];
  }
  __shared__ aug_job j; /* not in as many registers as it has members */
  if (threadIdx.x == 0) j = jobs.job[blockIdx.z];
  __syncthreads();
  if constexpr (TABLE) {
    for (int i = (int)threadIdx.x; i < terms.n * 256; i += THREADS) {
      int c = i / 256;
      float y = term(value((uint8_t)(i % 256), terms.by), t.mean[c], t.std[c]);
      for (; c < rows; c += terms.n) t.table[c][i % 256] = y;
    }
    __syncthreads();
    all_runs<uint8_t, true>(j, t, terms.n, terms.by);
  } else {
    if (j.dtype == SP_U8) all_runs<uint8_t, false>(j, t, terms.n, terms.by);
    else all_runs<float, false>(j, t, terms.n, terms.by);
  }
}

int norm_launch(void *stream, const aug_jobs *jobs, const norm_terms *terms) {
  int64_t most = 1;
  bool table = terms->n + 3 <= TABLES;
  for (int i = 0; i < jobs->count; i++) {
    runs r = runs_of(jobs->job[i], terms->n);
    most = most > r.n * tiles_of(r) ? most : r.n * tiles_of(r);
    table = table && jobs->job[i].dtype == SP_U8;
  }
  dim3 grid((unsigned)(most < (1 << 30) ? most : 1 << 30), (unsigned)jobs->n, (unsigned)jobs->count);
  if (table) SP_LAUNCH(normalize<true>, grid, THREADS, 0, stream, *jobs, *terms);
  else SP_LAUNCH(normalize<false>, grid, THREADS, 0, stream, *jobs, *terms);
  return cudaPeekAtLastError();
}
