/* SPDX-License-Identifier: MIT
 * boundary_kernels.cu - boundaries of masks on CUDA: first the classes of all pixels, then their boundaries, counted
 * with integer atomics. */
#include "boundary_kernels.h"

#include "../../kits/labels/logits.cuh"

constexpr int THREADS = 256;
constexpr int BLOCKS = 1024; /* at most */

static __global__ void clear(const bndk_job j, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS)
    j.boundaries[i] = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) *j.bad = ~0ull;
}

static __global__ void classify(const bndk_job j, int64_t all) {
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < all; p += (int64_t)gridDim.x * THREADS) {
    int64_t y = logits_label(j.labels, j.label_dtype, p);
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
  for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < all; p += (int64_t)gridDim.x * THREADS) {
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
  unsigned long long bad = *j.bad;
  j.status[0] = j.status[1] = j.status[2] = j.status[3] = 0;
  if (bad == ~0ull) return;
  int64_t at = (int64_t)bad, sample = at / j.s.px;
  j.status[0] = SP_E_DATA;
  j.status[1] = j.ids ? (int64_t)j.ids[sample] : sample;
  j.status[2] = logits_label(j.labels, j.label_dtype, at);
  j.status[3] = bnd_classes(&j.s) - 1;
}

static unsigned blocks_of(int64_t items) {
  int64_t blocks = (items + THREADS - 1) / THREADS;
  return (unsigned)(blocks < 1 ? 1 : blocks < BLOCKS ? blocks : BLOCKS);
}

int bndk_count(void *stream, const bndk_job *job) {
  int64_t all = job->s.n * job->s.px, cells = bnd_classes(&job->s) * BND_N;
  SP_LAUNCH(clear, blocks_of(cells), THREADS, 0, stream, *job, cells);
  SP_LAUNCH(classify, blocks_of(all), THREADS, 0, stream, *job, all);
  SP_LAUNCH(count, dim3(blocks_of(all), 2), THREADS, 0, stream, *job, all);
  SP_LAUNCH(report, 1, 1, 0, stream, *job);
  return cudaPeekAtLastError();
}
