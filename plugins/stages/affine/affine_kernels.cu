/* SPDX-License-Identifier: MIT
 * affine_kernels.cu - turned, shifted, scaled and sheared images on CUDA: one kernel makes the map of each sample,
 * one moves the pixels. */
#include "affine_kernels.h"

#include "../../kits/warp/warp_maps.cuh"

/* A thread a sample. */
static __global__ void __launch_bounds__(WARP_THREADS)
    draw(int64_t n, aug_dice dice, affine_range range, const warp_affine *given, warp_affine *told, warp_map *maps,
         int64_t *status) {
  int64_t i = (int64_t)blockIdx.x * WARP_THREADS + threadIdx.x;
  if (blockIdx.x == 0)
    aug_judge(status, n, dice.ids, given != nullptr, [&](int64_t k, int64_t &value, int64_t &limit) {
      value = affine_bad(&given[k]);
      limit = 0;
      return value != 0;
    });
  if (i >= n) return;
  warp_affine v = given ? given[i] : affine_draw(&dice, i, &range);
  maps[i] = affine_map(&v, &range);
  if (told) told[i] = v;
}

int affine_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const affine_range *range,
                  const warp_how *how, const warp_affine *given, warp_affine *told, warp_map *maps, int64_t *status) {
  SP_LAUNCH(draw, dim3((unsigned)((jobs->n + WARP_THREADS - 1) / WARP_THREADS)), WARP_THREADS, 0, stream, jobs->n,
            *dice, *range, given, told, maps, status);
  SP_LAUNCH(warp_by_maps, warp_grid(jobs), WARP_THREADS, 0, stream, *jobs, *how, maps);
  return cudaPeekAtLastError();
}
