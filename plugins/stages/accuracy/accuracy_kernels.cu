/* SPDX-License-Identifier: MIT
 * accuracy_kernels.cu - counting correct samples on CUDA: a warp ranks the label of a sample. Where one block is enough
 * it writes the results too; else each leaves its sums, and a second kernel adds them. */
#include "accuracy_kernels.h"

#include "../../kits/labels/logits.cuh"

constexpr int WARP = 32, WARPS = 8, THREADS = WARP * WARPS;
constexpr int64_t BLOCK_WORK = 32768; /* logits that one block reads before there is another */
static_assert(ACK_BLOCKS <= THREADS, "a block adds the sums of all");

/* n threads of the block give theirs, each in a slot of its own, the others have slot -1; thread 0 gets the sum. */
static __device__ ack_sums block_sum(const ack_sums &own, int slot, int n) {
  __shared__ ack_sums all[THREADS];
  ack_sums sum = {0, 0, 0, -1};
  if (slot >= 0) all[slot] = own;
  __syncthreads();
  if (threadIdx.x) return sum;
  for (int i = 0; i < n; i++) {
    sum.top1 += all[i].top1;
    sum.topk += all[i].topk;
    sum.counted += all[i].counted;
    if (all[i].bad >= 0 && (sum.bad < 0 || all[i].bad < sum.bad)) sum.bad = all[i].bad;
  }
  return sum;
}

static __device__ void report(const ack_job &j, const ack_sums &s) {
  *j.top1 = s.top1;
  *j.topk = s.topk;
  *j.counted = s.counted;
  label_status(j.status, SP_E_DATA, j.labels, j.label_dtype, s.bad, 1, j.ids, j.classes - 1);
}

/* How many classes are before `label`, whose logit is no NaN; all lanes get it. The comparisons are true of a NaN. */
static __device__ int rank_of(const float *x, int64_t label, int64_t classes, int lane) {
  float v = x[label];
  int rank = 0;
  for (int64_t c = lane; c < classes; c += WARP) {
    float o = x[c];
    rank += c < label ? !(o < v) : c > label && !(o <= v);
  }
  for (int d = WARP / 2; d; d >>= 1) rank += __shfl_xor_sync(0xffffffffu, rank, d);
  return rank;
}

static __global__ void __launch_bounds__(THREADS) count(const ack_job j) {
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  ack_sums s = {0, 0, 0, -1};
  for (int64_t i = (int64_t)blockIdx.x * WARPS + warp; i < j.n; i += (int64_t)gridDim.x * WARPS) {
    const float *x = j.x + i * j.classes;
    int64_t y = label_at(j.labels, j.label_dtype, i);
    if (y == j.ignore) continue;
    if (y < 0 || y >= j.classes) {
      if (s.bad < 0) s.bad = i;
      continue;
    }
    s.counted++;
    float v = x[y];
    if (v != v) continue;
    int rank = rank_of(x, y, j.classes, lane);
    s.top1 += rank < 1;
    s.topk += rank < j.k;
  }
  s = block_sum(s, lane ? -1 : warp, WARPS); /* all lanes of a warp have the same */
  if (threadIdx.x) return;
  if (gridDim.x == 1) report(j, s);
  else j.sums[blockIdx.x] = s;
}

static __global__ void __launch_bounds__(THREADS) total(const ack_job j, int blocks) {
  ack_sums s = {0, 0, 0, -1};
  if ((int)threadIdx.x < blocks) s = j.sums[threadIdx.x];
  s = block_sum(s, (int)threadIdx.x < blocks ? (int)threadIdx.x : -1, blocks);
  if (threadIdx.x == 0) report(j, s);
}

int ack_count(void *stream, const ack_job *job) {
  int64_t work = (job->n * job->classes + BLOCK_WORK - 1) / BLOCK_WORK, most = (job->n + WARPS - 1) / WARPS;
  int64_t blocks = work < most ? work : most;
  blocks = blocks < 1 ? 1 : blocks < ACK_BLOCKS ? blocks : (int64_t)ACK_BLOCKS;
  SP_LAUNCH(count, (unsigned)blocks, THREADS, 0, stream, *job);
  if (blocks > 1) SP_LAUNCH(total, 1, THREADS, 0, stream, *job, (int)blocks);
  return cudaPeekAtLastError();
}
