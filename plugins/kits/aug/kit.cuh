/* SPDX-License-Identifier: MIT
 * kit.cuh - what kernels over images and masks share. A grid is (tiles of an image, sample, tensor): blockIdx.y is the
 * sample, blockIdx.z the tensor, so that what depends on them is the same for a whole block.
 */
#ifndef SP_PLUGINS_AUG_KIT_CUH
#define SP_PLUGINS_AUG_KIT_CUH

#include "../cuda/launch.h"

#include "aug.h"
#include "draw.h"

/* How many blocks a multiprocessor is to take at a time; before compute capability 8.0 it has room for 1024 threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define AUG_PER_SM(threads, blocks) ((threads) * (blocks) <= 1024 ? (blocks) : 1024 / (threads))
#else
#define AUG_PER_SM(threads, blocks) (blocks)
#endif

/* Four elements that a thread stores at once. */
template <typename T> struct __align__(4 * sizeof(T)) aug_quad { T v[4]; };
template <> struct __align__(16) aug_quad<int64_t> { int64_t v[4]; };

/* A row of an output has out_w * pix elements; a thread makes four of them that lie side by side, fewer at its end. */
static __device__ __forceinline__ int aug_quads(const aug_job &j) { return (j.out_w * j.pix + 3) / 4; }

template <typename T>
static __device__ __forceinline__ const T *aug_row(const aug_job &j, int64_t sample, int64_t plane, int64_t y) {
  return static_cast<const T *>(j.in) + ((sample * j.planes + plane) * j.h + y) * j.w * j.pix;
}

/* Stores elements e .. e + 3 of a row of n, as far as they are there. */
template <typename T> static __device__ __forceinline__ void aug_store(T *row, int e, int n, const T (&v)[4]) {
  if (n % 4 == 0 && reinterpret_cast<uintptr_t>(row) % sizeof(aug_quad<T>) == 0) {
    aug_quad<T> q = {{v[0], v[1], v[2], v[3]}};
    *reinterpret_cast<aug_quad<T> *>(row + e) = q;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++)
    if (e + k < n) row[e + k] = v[k];
}

/* Calls make(row, plane, y, e, v) for the quads of this block's sample and tensor that are this thread's: it fills v
 * with elements e .. e + 3 of row y; elements behind the row's end are not kept,
 * but e + k must be checked before a read. */
template <typename T, typename Make> static __device__ __forceinline__ void aug_each_quad(const aug_job &j, Make make) {
  int quads = aug_quads(j), n = j.out_w * j.pix;
  int64_t all = j.planes * j.out_h * quads, sample = blockIdx.y;
  bool few = all <= 0xffffffff; /* a division of 64 bits takes far longer */
  T *out = static_cast<T *>(j.out) + sample * j.planes * j.out_h * n;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += (int64_t)gridDim.x * blockDim.x) {
    int64_t row = few ? (uint32_t)i / (uint32_t)quads : i / quads;
    int e = (int)(i - row * quads) * 4;
    int64_t plane = j.planes == 1 ? 0 : few ? (uint32_t)row / (uint32_t)j.out_h : row / j.out_h;
    T v[4];
    make(plane, (int)(row - plane * j.out_h), e, v);
    aug_store(out + row * n, e, n, v);
  }
}

/* ---- tiles ----
 * A tile is 32 units of a row (elements, or words of some), one a lane, times a strip of `rows` rows for each of a
 * block's `warps`: lanes read and write side by side, and a thread has the loads of several rows on their way at once.
 * A block makes one. What it computes beforehand is dear beside it, so strips should not be short. */
typedef struct aug_cut {
  uint32_t wide, high, all; /* tiles in a row, in a plane's column, in an image; never more than 2^31 */
} aug_cut;

static __host__ __device__ __forceinline__ aug_cut aug_cut_of(const aug_job &j, uint32_t units, int warps, int rows) {
  uint32_t wide = (units + 31) / 32, tall = (uint32_t)(warps * rows), high = ((uint32_t)j.out_h + tall - 1) / tall;
  return {wide, high, wide * high * (uint32_t)j.planes};
}

/* Where this thread's part begins: unit x of row y of a plane, which may both lie outside of the output; plane -1: the
 * tensor has no tile for this block. */
typedef struct aug_place {
  int64_t plane;
  int y, x;
} aug_place;

static __device__ __forceinline__ aug_place aug_place_of(const aug_job &j, uint32_t units, int warps, int rows) {
  aug_cut c = aug_cut_of(j, units, warps, rows);
  if (blockIdx.x >= c.all) return {-1, 0, 0};
  uint32_t s = c.wide == 1 ? blockIdx.x : blockIdx.x / c.wide, plane = j.planes == 1 ? 0 : s / c.high;
  return {(int64_t)plane, (int)(((s - plane * c.high) * (uint32_t)warps + threadIdx.x / 32) * (uint32_t)rows),
          (int)((blockIdx.x - s * c.wide) * 32 + threadIdx.x % 32)};
}

/* A block for each tile of the largest tensor. units(job): those of a row. */
template <typename Units> static inline dim3 aug_tile_grid(const aug_jobs *jobs, int warps, int rows, Units units) {
  uint32_t most = 1;
  for (int i = 0; i < jobs->count; i++) {
    aug_cut c = aug_cut_of(jobs->job[i], units(jobs->job[i]), warps, rows);
    most = c.all > most ? c.all : most;
  }
  return dim3(most, (unsigned)jobs->n, (unsigned)jobs->count);
}

/* Calls run(T()) with an element of j's size: for kernels that only move. */
template <typename Run> static __device__ __forceinline__ void aug_by_size(int dtype, Run run) {
  if (dtype == SP_U8) run(uint8_t());
  else if (dtype == SP_I64) run(int64_t());
  else run(int32_t());
}

/* A float as an element of an integer image: to the nearest, half to even. */
static __device__ __forceinline__ uint8_t aug_to(uint8_t, float v) { return (uint8_t)__float2int_rn(v); }
static __device__ __forceinline__ float aug_to(float, float v) { return v; }

/* The first sample whose given parameters are bad, in an order that no timing changes; all threads of one block call
 * it. bad(i, value, limit) says whether sample i is bad. */
template <typename Bad>
static __device__ void aug_judge(int64_t *status, int64_t n, const uint64_t *ids, bool given, Bad bad) {
  __shared__ unsigned long long first;
  if (!given) {
    if (threadIdx.x < 4) status[threadIdx.x] = 0;
    return;
  }
  if (threadIdx.x == 0) first = ~0ull;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    int64_t value, limit;
    if (!bad(i, value, limit)) continue;
    atomicMin(&first, (unsigned long long)i);
    break;
  }
  __syncthreads();
  if (threadIdx.x) return;
  int64_t value = 0, limit = 0, i = (int64_t)first;
  bool any = first != ~0ull && bad(i, value, limit);
  status[0] = any ? SP_E_DATA : 0;
  status[1] = !any ? 0 : ids ? (int64_t)ids[i] : i;
  status[2] = value;
  status[3] = limit;
}

/* Blocks for the largest tensor, each thread with a few quads. */
static inline dim3 aug_grid(const aug_jobs *jobs, int threads) {
  int64_t most = 1;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job *j = &jobs->job[i];
    int64_t quads = j->planes * j->out_h * (((int64_t)j->out_w * j->pix + 3) / 4);
    most = quads > most ? quads : most;
  }
  int64_t blocks = (most + threads - 1) / threads;
  return dim3((unsigned)(blocks < 65535 ? blocks : 65535), (unsigned)jobs->n, (unsigned)jobs->count);
}

#endif
