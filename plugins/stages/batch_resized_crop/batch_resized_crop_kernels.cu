/* SPDX-License-Identifier: MIT
 * batch_resized_crop_kernels.cu - windows of random area and ratio on CUDA: one kernel says where they are, one scales
 * them as `resize` scales what shrinks, with axes of its own for each sample. */
#include "batch_resized_crop_kernels.h"

#include "../resize/resize_tile.cuh"

/* A thread a sample; what the status tells must not be read outside before. */
static __global__ void __launch_bounds__(THREADS)
    draw(int64_t n, aug_dice dice, zoom_range range, const zoom_box *given, zoom_box *told, zoom_box *boxes) {
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, value, limit;
  if (i >= n) return;
  zoom_box b = given ? given[i] : zoom_draw(&dice, i, &range);
  if (told) told[i] = b;
  if (given && zoom_bad(&range, &b, &value, &limit)) b = zoom_middle(&range);
  boxes[i] = b;
}

static __global__ void __launch_bounds__(THREADS)
    judge(int64_t n, const uint64_t *ids, zoom_range range, const zoom_box *given, int64_t *status) {
  aug_judge(status, n, ids, given != nullptr,
            [&](int64_t i, int64_t &value, int64_t &limit) { return zoom_bad(&range, &given[i], &value, &limit); });
}

static __global__ void __launch_bounds__(THREADS, 3) zoom(const aug_jobs jobs, const zoom_box *boxes, int antialias) {
  __shared__ tile_memory m;
  const aug_job &j = jobs.job[blockIdx.z];
  zoom_box b = boxes[blockIdx.y];
  axes a = {resize_axis_of(b.w, j.out_w, antialias), resize_axis_of(b.h, j.out_h, antialias)};
  corner from = {b.top, b.left};
  if (picked(j, a, WARPS, ROWS, blockIdx.y, from)) return;
  if (j.dtype == SP_U8) tiles<uint8_t>(m, j, a, from);
  else tiles<float>(m, j, a, from);
}

int zoom_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const zoom_range *range,
                const zoom_box *given, zoom_box *told, zoom_box *boxes, int64_t *status, int antialias) {
  unsigned blocks = (unsigned)((jobs->n + THREADS - 1) / THREADS);
  SP_LAUNCH(draw, dim3(blocks), THREADS, 0, stream, jobs->n, *dice, *range, given, told, boxes);
  SP_LAUNCH(judge, dim3(1), THREADS, 0, stream, jobs->n, dice->ids, *range, given, status);
  SP_LAUNCH(zoom, tile_grid(jobs), THREADS, 0, stream, *jobs, boxes, antialias);
  return cudaPeekAtLastError();
}
