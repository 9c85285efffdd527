/* SPDX-License-Identifier: MIT
 * calibration_kernels.cu - reliability of probabilities on CUDA, with integer atomics: the sums are exact, whatever
 * their order. */
#include "calibration_kernels.h"

#include "../../kits/score/score.cuh"

constexpr int THREADS = 256;
constexpr int BLOCKS = 512; /* at most */

static __global__ void clear(const calk_job j) {
  for (int i = threadIdx.x; i < j.bins * CAL_N; i += THREADS) j.reliability[i] = 0;
  if (threadIdx.x == 0) *j.bad = ~0ull;
}

static __global__ void count(const calk_job j, int64_t items) {
  SP_DYNAMIC_SHARED(unsigned long long, own);
  const logit_shape &s = j.s.shape;
  for (int i = threadIdx.x; i < j.bins * CAL_N; i += THREADS) own[i] = 0;
  __syncthreads();
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < items; i += (int64_t)gridDim.x * THREADS) {
    int64_t each = cal_predictions(&j.s), p = i / each, c = i % each;
    double probability = 0;
    if (j.s.kind == SCORE_CLASSES) {
      score_top top = score_top_of(&j.s, p);
      probability = 1 / top.all;
      c = top.best;
    } else {
      probability = score_probability(score_sigmoid(j.s.x[score_at(&s, s.rows, p, c)]));
    }
    int truth = score_truth(&j.s, p, c);
    if (truth == SCORE_BAD)
      atomicMin(j.bad, (unsigned long long)(p * s.classes + (j.s.kind == SCORE_CLASSES ? 0 : c)));
    if (truth > SCORE_YES) continue;
    cal_one one = cal_of(probability, j.bins);
    unsigned long long *to = own + one.bin * CAL_N;
    atomicAdd(to + CAL_SAMPLES, 1ull);
    if (truth == SCORE_YES) atomicAdd(to + CAL_HITS, 1ull);
    atomicAdd(to + CAL_CONFIDENCE, (unsigned long long)one.confidence);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < j.bins * CAL_N; i += THREADS)
    if (own[i]) atomicAdd((unsigned long long *)j.reliability + i, own[i]);
}

static __global__ void report(const calk_job j) { score_status(&j.s, (int64_t)*j.bad, j.status); }

int calk_count(void *stream, const calk_job *job) {
  int64_t items = job->s.shape.n * job->s.shape.px * cal_predictions(&job->s), blocks = (items + THREADS - 1) / THREADS;
  blocks = blocks < 1 ? 1 : blocks < BLOCKS ? blocks : (int64_t)BLOCKS;
  SP_LAUNCH(clear, 1, THREADS, 0, stream, *job);
  size_t bytes = (size_t)(job->bins * CAL_N) * sizeof(unsigned long long);
  SP_LAUNCH(count, (unsigned)blocks, THREADS, bytes, stream, *job, items);
  SP_LAUNCH(report, 1, 1, 0, stream, *job);
  return cudaPeekAtLastError();
}
