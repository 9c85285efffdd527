/* SPDX-License-Identifier: MIT
 * score_histogram_kernels.cu - counting scores on CUDA, with integer atomics: the sums are exact, whatever their
 * order. A block counts one class in shared memory first. */
#include "score_histogram_kernels.h"

#include "../../kits/cuda/tally.cuh"
#include "../../kits/score/score.cuh"

constexpr int BLOCKS = 512; /* at most, of a class */

static __global__ void sum_up(const shk_job j, int64_t positions) {
  for (int64_t p = tally_first(); p < positions; p += tally_step()) {
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
  int64_t *scores = j.scores + c * 2 * j.bins.n;
  tally_begin(own, table);
  for (int64_t p = tally_first(); p < positions; p += tally_step()) {
    int truth = score_truth(&j.s, p, c);
    if (truth == SCORE_BAD) atomicMin(j.bad, (unsigned long long)(p * s.classes + c));
    if (truth > SCORE_YES) continue;
    float x = j.s.x[logit_index(&s, s.rows, p, c)];
    score one = j.s.kind == SCORE_CLASSES ? score_softmax(x, j.max[p], j.all[p]) : score_sigmoid(x);
    int cell = truth * j.bins.n + shist_bin(&j.bins, one);
    if (table) atomicAdd(&own[cell], 1u);
    else atomicAdd((unsigned long long *)scores + cell, 1ull);
  }
  tally_end(own, table, scores);
}

static __global__ void report(const shk_job j) { score_status(&j.s, (int64_t)*j.bad, j.status); }

int shk_count(void *stream, const shk_job *job) {
  const logit_shape *s = &job->s.shape;
  int64_t positions = s->n * s->px, table = 2 * (int64_t)job->bins.n, bytes = table * (int64_t)sizeof(unsigned);
  bool fits = bytes <= TALLY_BYTES;
  tally_clear(stream, job->scores, s->classes * table, job->bad, BLOCKS);
  if (job->s.kind == SCORE_CLASSES)
    SP_LAUNCH(sum_up, tally_blocks(positions, BLOCKS), TALLY_THREADS, 0, stream, *job, positions);
  SP_LAUNCH(count, dim3(tally_blocks(positions, BLOCKS), (unsigned)s->classes), TALLY_THREADS, fits ? (size_t)bytes : 0,
            stream, *job, positions, fits ? (int)table : 0);
  SP_LAUNCH(report, 1, 1, 0, stream, *job);
  return cudaPeekAtLastError();
}
