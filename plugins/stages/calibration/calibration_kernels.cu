/* SPDX-License-Identifier: MIT
 * calibration_kernels.cu - reliability of probabilities on CUDA, with integer atomics: the sums are exact, whatever
 * their order. */
#include "calibration_kernels.h"

#include "../../kits/cuda/tally.cuh"
#include "../../kits/score/score.cuh"

constexpr int BLOCKS = 512; /* at most */

static __global__ void count(const calk_job j, int64_t items) {
  SP_DYNAMIC_SHARED(unsigned long long, own);
  const logit_shape &s = j.s.shape;
  tally_begin(own, j.bins * CAL_N);
  for (int64_t i = tally_first(); i < items; i += tally_step()) {
    int64_t each = cal_predictions(&j.s), p = i / each, c = i % each;
    double probability = 0;
    if (j.s.kind == SCORE_CLASSES) {
      score_top top = score_top_of(&j.s, p);
      probability = 1 / top.all;
      c = top.best;
    } else {
      probability = score_probability(score_sigmoid(j.s.x[logit_index(&s, s.rows, p, c)]));
    }
    int truth = score_truth(&j.s, p, c);
    if (truth == SCORE_BAD) atomicMin(j.bad, (unsigned long long)(p * s.classes + (j.s.kind == SCORE_CLASSES ? 0 : c)));
    if (truth > SCORE_YES) continue;
    cal_one one = cal_of(probability, j.bins);
    unsigned long long *to = own + one.bin * CAL_N;
    atomicAdd(to + CAL_SAMPLES, 1ull);
    if (truth == SCORE_YES) atomicAdd(to + CAL_HITS, 1ull);
    atomicAdd(to + CAL_CONFIDENCE, (unsigned long long)one.confidence);
  }
  tally_end(own, j.bins * CAL_N, j.reliability);
}

static __global__ void report(const calk_job j) { score_status(&j.s, (int64_t)*j.bad, j.status); }

int calk_count(void *stream, const calk_job *job) {
  int64_t items = job->s.shape.n * job->s.shape.px * cal_predictions(&job->s), cells = job->bins * CAL_N;
  size_t bytes = (size_t)cells * sizeof(unsigned long long);
  tally_clear(stream, job->reliability, cells, job->bad, BLOCKS);
  SP_LAUNCH(count, tally_blocks(items, BLOCKS), TALLY_THREADS, bytes, stream, *job, items);
  SP_LAUNCH(report, 1, 1, 0, stream, *job);
  return cudaPeekAtLastError();
}
