/* SPDX-License-Identifier: MIT
 * confusion_kernels.cu - counting pairs on CUDA, with integer atomics: the sums are exact, whatever their order. */
#include "confusion_kernels.h"

#include "../../kits/cuda/tally.cuh"
#include "../../kits/labels/logits.cuh"

constexpr int BLOCKS = 512; /* at most */

/* `table` is 0 where the block's table does not fit into shared memory. */
static __global__ void count(const cfk_job j, int table) {
  SP_DYNAMIC_SHARED(unsigned, own);
  const logit_shape &s = j.shape;
  int64_t all = s.n * s.px;
  tally_begin(own, table);
  for (int64_t p = tally_first(); p < all; p += tally_step()) {
    int64_t y = label_at(j.labels, j.label_dtype, p);
    if (y == j.ignore) continue;
    if (y < 0 || y >= s.classes) {
      atomicMin(j.bad, (unsigned long long)p);
      continue;
    }
    int64_t cell = y * s.classes + logits_argmax(j.x, s, p);
    if (table) atomicAdd(&own[cell], 1u);
    else atomicAdd((unsigned long long *)j.counts + cell, 1ull);
  }
  tally_end(own, table, j.counts);
}

static __global__ void report(const cfk_job j) {
  label_status(j.status, SP_E_DATA, j.labels, j.label_dtype, (int64_t)*j.bad, j.shape.px, j.ids, j.shape.classes - 1);
}

int cfk_count(void *stream, const cfk_job *job) {
  int64_t table = job->shape.classes * job->shape.classes, bytes = table * (int64_t)sizeof(unsigned);
  bool fits = bytes <= TALLY_BYTES;
  tally_clear(stream, job->counts, table, job->bad, BLOCKS);
  SP_LAUNCH(count, tally_blocks(job->shape.n * job->shape.px, BLOCKS), TALLY_THREADS, fits ? (size_t)bytes : 0, stream,
            *job, fits ? (int)table : 0);
  SP_LAUNCH(report, 1, 1, 0, stream, *job);
  return cudaPeekAtLastError();
}
