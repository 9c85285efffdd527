/* SPDX-License-Identifier: MIT
 * shard_sum_kernels.cu - shard_sum on CUDA, with the CPU's bits: additions and one product only. */
#include "shard_sum_kernels.h"

#include "../../kits/cuda/launch.h"

constexpr int THREADS = 256;

static __global__ void count(const sp_step *step, const double *total, double *heads) {
  heads[step->shard * HEAD_N + HEAD_TOTAL] = step->n ? *total : 0;
  heads[step->shard * HEAD_N + HEAD_RAN] = step->n > 0;
}

static __device__ inline float4 plus(float4 a, float4 b) {
  return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w)};
}
static __device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
static __device__ inline float rounded(float a) { return shard_rounded(a); }
static __device__ inline float4 rounded(float4 a) { return {rounded(a.x), rounded(a.y), rounded(a.z), rounded(a.w)}; }
static __device__ inline float4 times(float4 a, float k) {
  return {__fmul_rn(a.x, k), __fmul_rn(a.y, k), __fmul_rn(a.z, k), __fmul_rn(a.w, k)};
}
static __device__ inline float times(float a, float k) { return __fmul_rn(a, k); }

/* Elements from..n - 1 of a block, as Ts. Levels are aligned; the tensor may not be. */
template <typename T>
static __device__ void add_some(float *own, float *levels, int64_t floats, int from, int n, shard_turn turn, bool some,
                                bool bf16, float k) {
  for (int i = from + threadIdx.x; i < n; i += THREADS) {
    T v = some ? ((const T *)own)[i] : T{};
    if (bf16) v = rounded(v);
    for (int level = turn.from - 1; level > turn.keep; level--) {
      v = plus(((const T *)(levels + level * floats))[i], v);
      if (bf16) v = rounded(v);
    }
    if (turn.keep >= 0) ((T *)(levels + turn.keep * floats))[i] = v;
    else ((T *)own)[i] = times(v, k);
  }
}

static __global__ void __launch_bounds__(THREADS) add(const shardk_table t, const double *heads, float *levels,
                                                      int64_t floats, const sp_step *step, const shard_params p) {
  __shared__ shard_head h;
  int64_t leaves = shard_leaves(&p), m = shard_of(step, leaves);
  bool bf16 = p.bf16;
  if (!heads && leaves == 1 && step->n && !bf16) return; /* it is the sum */
  if (threadIdx.x == 0) {
    h.scale = h.mean = 1;
    if (heads && m == leaves - 1) h = shard_heads(heads, p.shards);
  }
  __syncthreads();
  uint32_t lo = 0, hi = t.n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (t.first[mid] <= blockIdx.x) lo = mid;
    else hi = mid;
  }
  int64_t at = (int64_t)(blockIdx.x - t.first[lo]) * SHARDK_CHUNK;
  int n = blockIdx.x + 1 == t.first[lo + 1] ? (int)t.tail[lo] : (int)SHARDK_CHUNK;
  float *own = t.own[lo] + at, k = lo < t.gradients ? h.scale : h.mean;
  int quads = (uintptr_t)own % sizeof(float4) ? 0 : n / 4;
  levels += t.at[lo] + at;
  bf16 = bf16 && lo < t.gradients;
  shard_turn turn = shard_turn_of(m, leaves);
  add_some<float4>(own, levels, floats, 0, quads, turn, step->n, bf16, k);
  add_some<float>(own, levels, floats, quads * 4, n, turn, step->n, bf16, k);
}

/* One block a tensor: statistics are small. */
static __global__ void keep(const shardk_kept list, const sp_step *step) {
  if (!step->n) return; /* they stay as the last shard with samples has left them */
  int64_t bytes = list.bytes[blockIdx.x], words = 0;
  char *now = (char *)list.now[blockIdx.x], *kept = list.kept[blockIdx.x], *to = step->shard ? now : kept;
  const char *from = step->shard ? kept : now;
  if (((uintptr_t)now | (uintptr_t)kept) % sizeof(uint32_t) == 0) words = bytes / (int64_t)sizeof(uint32_t);
  for (int64_t i = threadIdx.x; i < words; i += THREADS) ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
  for (int64_t i = words * (int64_t)sizeof(uint32_t) + threadIdx.x; i < bytes; i += THREADS) to[i] = from[i];
}

/* A thread has four elements, and the levels of the ranks' tree that are not complete. */
static __global__ void __launch_bounds__(THREADS) add_ranks(const shardk_tree t) {
  __shared__ shard_head h;
  float4 levels[SHARD_LEVELS_MAX], v;
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, quads = t.each / 4;
  if (threadIdx.x == 0) h = shard_heads(t.heads, t.shards);
  __syncthreads();
  if (i >= quads) return;
  for (int64_t m = 0; m < t.ranks; m++) {
    shard_turn turn = shard_turn_of(m, t.ranks);
    v = ((const float4 *)t.pieces)[m * quads + i];
    for (int level = turn.from - 1; level > turn.keep; level--) v = plus(levels[level], v);
    if (turn.keep >= 0) levels[turn.keep] = v;
  }
  ((float4 *)t.out)[i] = times(v, i * 4 < t.gradients ? h.scale : h.mean);
}

static __device__ inline float4 wide(ushort4 b) {
  return {shard_float(b.x), shard_float(b.y), shard_float(b.z), shard_float(b.w)};
}
static __device__ inline ushort4 narrow(float4 f) {
  return {shard_bf16(f.x), shard_bf16(f.y), shard_bf16(f.z), shard_bf16(f.w)};
}

static __global__ void __launch_bounds__(THREADS) add_ranks_half(const shardk_tree t) {
  float4 levels[SHARD_LEVELS_MAX], v;
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, quads = t.each / 4;
  if (i >= quads) return;
  for (int64_t m = 0; m < t.ranks; m++) {
    shard_turn turn = shard_turn_of(m, t.ranks);
    v = wide(((const ushort4 *)t.pieces)[m * quads + i]);
    for (int level = turn.from - 1; level > turn.keep; level--) v = rounded(plus(levels[level], v));
    if (turn.keep >= 0) levels[turn.keep] = v;
  }
  ((ushort4 *)t.out)[i] = narrow(v);
}

static __global__ void __launch_bounds__(THREADS) pack(ushort4 *to, const float4 *from, int64_t quads) {
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < quads) to[i] = narrow(from[i]);
}

static __global__ void __launch_bounds__(THREADS)
    unpack(float4 *to, const ushort4 *from, int64_t quads, const double *heads, int64_t shards) {
  __shared__ float k;
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (threadIdx.x == 0) k = shard_heads(heads, shards).scale;
  __syncthreads();
  if (i < quads) to[i] = times(wide(from[i]), k);
}

static int64_t blocks_of(int64_t n) { return (n / 4 + THREADS - 1) / THREADS; }

int shardk_pack(void *stream, uint16_t *to, const float *from, int64_t n) {
  if (n) SP_LAUNCH(pack, (unsigned)blocks_of(n), THREADS, 0, stream, (ushort4 *)to, (const float4 *)from, n / 4);
  return cudaPeekAtLastError();
}

int shardk_unpack(void *stream, float *to, const uint16_t *from, int64_t n, const double *heads, int64_t shards) {
  if (n)
    SP_LAUNCH(unpack, (unsigned)blocks_of(n), THREADS, 0, stream, (float4 *)to, (const ushort4 *)from, n / 4, heads,
              shards);
  return cudaPeekAtLastError();
}

int shardk_add_ranks(void *stream, const shardk_tree *t) {
  int64_t blocks = blocks_of(t->each);
  if (blocks && t->half) SP_LAUNCH(add_ranks_half, (unsigned)blocks, THREADS, 0, stream, *t);
  else if (blocks) SP_LAUNCH(add_ranks, (unsigned)blocks, THREADS, 0, stream, *t);
  return cudaPeekAtLastError();
}

int shardk_count(void *stream, const sp_step *step, const double *total, double *heads) {
  SP_LAUNCH(count, 1, 1, 0, stream, step, total, heads);
  return cudaPeekAtLastError();
}

static __global__ void find_scale(float *scale, const double *heads, int64_t shards, const float *by) {
  float k = shard_heads(heads, shards).scale;
  *scale = by ? __fmul_rn(k, *by) : k;
}

int shardk_scale(void *stream, float *scale, const double *heads, int64_t shards, const float *by) {
  SP_LAUNCH(find_scale, 1, 1, 0, stream, scale, heads, shards, by);
  return cudaPeekAtLastError();
}

int shardk_add(void *stream, const shardk_table *t, const double *heads, float *levels, int64_t floats,
               const sp_step *step, const shard_params *p) {
  if (t->first[t->n]) SP_LAUNCH(add, t->first[t->n], THREADS, 0, stream, *t, heads, levels, floats, step, *p);
  return cudaPeekAtLastError();
}

int shardk_keep(void *stream, const shardk_kept *list, const sp_step *step) {
  if (list->n) SP_LAUNCH(keep, list->n, THREADS, 0, stream, *list, step);
  return cudaPeekAtLastError();
}
