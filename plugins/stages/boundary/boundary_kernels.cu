/* SPDX-License-Identifier: MIT
 * boundary_kernels.cu - boundaries of masks on CUDA: first the classes of all pixels, then their boundaries, counted
 * with integer atomics. */
#include "boundary_kernels.h"

#include "../../kits/cuda/tally.cuh"
#include "../../kits/labels/logits.cuh"

constexpr int BLOCKS = 1024; /* at most */

static __global__ void classify(const bndk_job j, int64_t all) {
  for (int64_t p = tally_first(); p < all; p += tally_step()) {
    int64_t y = label_at(j.labels, j.label_dtype, p);
    bool counts = y != j.ignore;
    if (counts && (y < 0 || y >= bnd_classes(&j.s))) {
      atomicMin(j.bad, (unsigned long long)p);
      counts = false;
    }
    int64_t best = j.s.classes == 1 ? j.x[p] > 0 : logits_argmax(j.x, j.s, p);
    j.predicted[p] = counts ? (bnd_class)best : (bnd_class)-1;
    j.truth[p] = counts ? (bnd_class)y : (bnd_class)-1;
  }
}

/* blockIdx.y: 0: the predicted ones, 1: the true ones. */
static __global__ void count(const bndk_job j, int64_t all) {
  const bnd_class *maps = blockIdx.y ? j.truth : j.predicted, *others = blockIdx.y ? j.predicted : j.truth;
  int first = blockIdx.y ? BND_TRUE : BND_PREDICTED;
  for (int64_t p = tally_first(); p < all; p += tally_step()) {
    int64_t image = p / j.s.px * j.s.px;
    int32_t y = (int32_t)((p - image) / j.size.w), x = (int32_t)((p - image) % j.size.w);
    bnd_class found[4];
    int n = bnd_at(maps + image, &j.size, y, x, found);
    for (int i = 0; i < n; i++) {
      unsigned long long *to = (unsigned long long *)j.boundaries + found[i] * BND_N + first;
      atomicAdd(to, 1ull);
      if (bnd_near(others + image, &j.size, y, x, found[i])) atomicAdd(to + 1, 1ull);
    }
  }
}

static __global__ void report(const bndk_job j) {
  label_status(j.status, SP_E_DATA, j.labels, j.label_dtype, (int64_t)*j.bad, j.s.px, j.ids, bnd_classes(&j.s) - 1);
}

int bndk_count(void *stream, const bndk_job *job) {
  int64_t all = job->s.n * job->s.px, cells = bnd_classes(&job->s) * BND_N;
  tally_clear(stream, job->boundaries, cells, job->bad, BLOCKS);
  SP_LAUNCH(classify, tally_blocks(all, BLOCKS), TALLY_THREADS, 0, stream, *job, all);
  SP_LAUNCH(count, dim3(tally_blocks(all, BLOCKS), 2), TALLY_THREADS, 0, stream, *job, all);
  SP_LAUNCH(report, 1, 1, 0, stream, *job);
  return cudaPeekAtLastError();
}
