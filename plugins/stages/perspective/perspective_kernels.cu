/* SPDX-License-Identifier: MIT
 * perspective_kernels.cu - images seen from aside on CUDA: one kernel makes the map of each sample, one moves
 * the pixels. */
#include "perspective_kernels.h"

#include "../../kits/warp/warp_maps.cuh"

/* A thread a sample. */
static __global__ void __launch_bounds__(WARP_THREADS)
    draw(int64_t n, aug_dice dice, perspective_range range, const warp_corners *given, warp_corners *told,
         warp_map *maps, int64_t *status) {
  int64_t i = (int64_t)blockIdx.x * WARP_THREADS + threadIdx.x;
  if (blockIdx.x == 0)
    aug_judge(status, n, dice.ids, given != nullptr, [&](int64_t k, int64_t &value, int64_t &limit) {
      value = limit = 0;
      return warp_corners_bad(&given[k], range.h, range.w) != 0;
    });
  if (i >= n) return;
  warp_corners v = given ? given[i] : perspective_draw(&dice, i, &range);
  maps[i] = perspective_map(&v, &range);
  if (told) told[i] = v;
}

int perspective_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const perspective_range *range,
                       const warp_how *how, const warp_corners *given, warp_corners *told, warp_map *maps,
                       int64_t *status) {
  SP_LAUNCH(draw, dim3((unsigned)((jobs->n + WARP_THREADS - 1) / WARP_THREADS)), WARP_THREADS, 0, stream, jobs->n,
            *dice, *range, given, told, maps, status);
  SP_LAUNCH(warp_by_maps, warp_grid(jobs), WARP_THREADS, 0, stream, *jobs, *how, maps);
  return cudaPeekAtLastError();
}
