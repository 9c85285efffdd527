/* SPDX-License-Identifier: MIT
 * batch_resized_crop_kernels.cu - windows of random area and ratio on CUDA: one kernel says where they are, one scales
 * them as `resize` scales what shrinks, with axes of its own for each sample: `zoom` where a tile of the largest
 * window, the image, fits shared memory, `zoom_any` for the rest. */
#include "batch_resized_crop_kernels.h"

#include "../resize/resize_shrink.cuh"
#include "../resize/resize_tile.cuh"

/* A thread a sample; what the status tells must not be read outside before. */
static __global__ void __launch_bounds__(THREADS)
    draw(int64_t n, aug_dice dice, zoom_range range, const zoom_box *given, zoom_box *told, zoom_box *boxes,
         int64_t *status) {
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, value, limit;
  if (!given && i < 4) status[i] = 0;
  if (i >= n) return;
  zoom_box b = given ? given[i] : zoom_draw(&dice, i, &range);
  if (told) told[i] = b;
  if (given && zoom_bad(&range, &b, &value, &limit)) b = zoom_middle(&range);
  boxes[i] = b;
}

static __global__ void __launch_bounds__(THREADS)
    judge(int64_t n, const uint64_t *ids, zoom_range range, const zoom_box *given, int64_t *status) {
  aug_judge(status, n, ids, true,
            [&](int64_t i, int64_t &value, int64_t &limit) { return zoom_bad(&range, &given[i], &value, &limit); });
}

static __device__ axes axes_of(const aug_job &j, const zoom_box &b, int how) {
  return {resize_axis_of(b.w, j.out_w, how), resize_axis_of(b.h, j.out_h, how)};
}

/* By the inputs an output of this sample has. */
template <bool CUBIC, typename T>
static __device__ void zoom_tiles(unsigned char *memory, const aug_job &j, const axes &a, const shrink_cut &cut,
                                  corner from) {
  shrink_planes planes = {blockIdx.y * j.planes, 1, (blockIdx.y + 1) * j.planes};
  if constexpr (CUBIC) {
    shrink_tiles<0, true, T>(memory, j, a, cut, planes, from);
  } else {
    int taps = max(shrink_taps(a.x), shrink_taps(a.y));
    if (taps <= 2) shrink_tiles<2, false, T>(memory, j, a, cut, planes, from);
    else if (taps <= 4) shrink_tiles<4, false, T>(memory, j, a, cut, planes, from);
    else shrink_tiles<0, false, T>(memory, j, a, cut, planes, from);
  }
}

template <bool CUBIC>
static __global__ void __launch_bounds__(SHRINK_THREADS, AUG_PER_SM(SHRINK_THREADS, 4))
    zoom(const aug_jobs jobs, const zoom_box *boxes, const shrink_cut cut) {
  SP_DYNAMIC_SHARED(unsigned char, memory);
  const aug_job &j = jobs.job[blockIdx.z];
  zoom_box b = boxes[blockIdx.y];
  axes a = axes_of(j, b, CUBIC ? RESIZE_CUBIC : RESIZE_MEAN);
  corner from = {b.top, b.left};
  if (picked(j, a, WARPS, ROWS, blockIdx.y, from)) return;
  if (j.dtype == SP_U8) zoom_tiles<CUBIC, uint8_t>(memory, j, a, cut, from);
  else zoom_tiles<CUBIC, float>(memory, j, a, cut, from);
}

template <bool CUBIC>
static __global__ void __launch_bounds__(THREADS, 3) zoom_any(const aug_jobs jobs, const zoom_box *boxes, int how) {
  const aug_job &j = jobs.job[blockIdx.z];
  zoom_box b = boxes[blockIdx.y];
  axes a = axes_of(j, b, how);
  corner from = {b.top, b.left};
  if (picked(j, a, WARPS, ROWS, blockIdx.y, from)) return;
  tiles<CUBIC>(j, a, from);
}

/* Inputs that an output of any window has at most: where those of the whole axis are a whole number, a window that is
 * smaller by a pixel may have one more. */
static int most_taps(const resize_axis &a) {
  resize_axis less = resize_axis_of(a.in > 1 ? a.in - 1 : 1, a.out, a.how);
  return max(max(shrink_taps(a), shrink_taps(less)), 4);
}

/* Whether a tile of any window fits; `grid` is large enough for what is picked, too. */
static bool zoom_cut_of(const aug_jobs *jobs, const axes &whole, shrink_cut *cut, dim3 *grid) {
  cut->taps = 0;
  cut->taps_x = most_taps(whole.x);
  cut->taps_y = most_taps(whole.y);
  if (max(cut->taps_x, cut->taps_y) > SHRINK_TAPS || !shrink_fits(jobs, whole, cut)) return false;
  *grid = aug_tile_grid(jobs, WARPS, ROWS, quads_of);
  for (int i = 0; i < jobs->count; i++)
    if (!jobs->job[i].mask) grid->x = max(grid->x, (unsigned)shrink_tiles_of(jobs->job[i], *cut));
  return true;
}

int zoom_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const zoom_range *range,
                const zoom_box *given, zoom_box *told, zoom_box *boxes, int64_t *status, int how) {
  unsigned blocks = (unsigned)((jobs->n + THREADS - 1) / THREADS);
  const aug_job *j = jobs->job;
  axes whole = {resize_axis_of(j->w, j->out_w, how), resize_axis_of(j->h, j->out_h, how)};
  shrink_cut cut;
  dim3 grid;
  bool cubic = how == RESIZE_CUBIC;
  SP_LAUNCH(draw, dim3(blocks), THREADS, 0, stream, jobs->n, *dice, *range, given, told, boxes, status);
  if (given) SP_LAUNCH(judge, dim3(1), THREADS, 0, stream, jobs->n, dice->ids, *range, given, status);
  if (how != RESIZE_NEAR && zoom_cut_of(jobs, whole, &cut, &grid)) {
    if (cubic) SP_LAUNCH(zoom<true>, grid, SHRINK_THREADS, (size_t)cut.bytes, stream, *jobs, boxes, cut);
    else SP_LAUNCH(zoom<false>, grid, SHRINK_THREADS, (size_t)cut.bytes, stream, *jobs, boxes, cut);
  } else if (cubic) {
    SP_LAUNCH(zoom_any<true>, tile_grid(jobs), THREADS, 0, stream, *jobs, boxes, how);
  } else {
    SP_LAUNCH(zoom_any<false>, tile_grid(jobs), THREADS, 0, stream, *jobs, boxes, how);
  }
  return cudaPeekAtLastError();
}
