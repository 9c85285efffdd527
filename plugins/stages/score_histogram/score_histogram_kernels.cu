/* SPDX-License-Identifier: MIT
 * score_histogram_kernels.cu - counting scores on CUDA, with integer atomics: the sums are exact, whatever their
 * order. A block counts one class in shared memory first. */
#include "score_histogram_kernels.h"

#include "../../kits/score/score.cuh"

constexpr int THREADS = 256;
constexpr int BLOCKS = 512;            /* at most, of a class */
constexpr int64_t TABLE_BYTES = 32768; /* up to so many a block counts in shared memory first */

static __global__ void clear(const shk_job j, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS)
    j.scores[i] = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) *j.bad = ~0ull;
}

static __global__ void sum_up(const shk_job j, int64_t positions) {
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < positions; p += (int64_t)gridDim.x * THREADS) {
    score_top top = score_top_of(&j.s, p);
    j.max[p] = top.max;
    j.all[p] = top.all;
  }
}

/* `table` is 0 where a class's bins do not fit into shared memory. */
static __global__ void count(const shk_job j, int64_t positions, int table) {
  SP_DYNAMIC_SHARED(unsigned, own);
  const logit_shape &s = j.s.shape;
  int64_t c = blockIdx.y;
  unsigned long long *scores = (unsigned long long *)j.scores + c * 2 * j.bins.n;
  for (int i = threadIdx.x; i < table; i += THREADS) own[i] = 0;
  __syncthreads();
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < positions; p += (int64_t)gridDim.x * THREADS) {
    int truth = score_truth(&j.s, p, c);
    if (truth == SCORE_BAD) atomicMin(j.bad, (unsigned long long)(p * s.classes + c));
    if (truth > SCORE_YES) continue;
    float x = j.s.x[score_at(&s, s.rows, p, c)];
    score one = j.s.kind == SCORE_CLASSES ? score_softmax(x, j.max[p], j.all[p]) : score_sigmoid(x);
    int cell = truth * j.bins.n + shist_bin(&j.bins, one);
    if (table) atomicAdd(&own[cell], 1u);
    else atomicAdd(&scores[cell], 1ull);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < table; i += THREADS)
    if (own[i]) atomicAdd(&scores[i], (unsigned long long)own[i]);
}

static __global__ void report(const shk_job j) { score_status(&j.s, (int64_t)*j.bad, j.status); }

static unsigned blocks_of(int64_t items) {
  int64_t blocks = (items + THREADS - 1) / THREADS;
  return (unsigned)(blocks < 1 ? 1 : blocks < BLOCKS ? blocks : BLOCKS);
}

int shk_count(void *stream, const shk_job *job) {
  const logit_shape *s = &job->s.shape;
  int64_t positions = s->n * s->px, table = 2 * (int64_t)job->bins.n, bytes = table * (int64_t)sizeof(unsigned);
  bool fits = bytes <= TABLE_BYTES;
  SP_LAUNCH(clear, blocks_of(s->classes * table), THREADS, 0, stream, *job, s->classes * table);
  if (job->s.kind == SCORE_CLASSES) SP_LAUNCH(sum_up, blocks_of(positions), THREADS, 0, stream, *job, positions);
  SP_LAUNCH(count, dim3(blocks_of(positions), (unsigned)s->classes), THREADS, fits ? (size_t)bytes : 0, stream, *job,
            positions, fits ? (int)table : 0);
  SP_LAUNCH(report, 1, 1, 0, stream, *job);
  return cudaPeekAtLastError();
}
