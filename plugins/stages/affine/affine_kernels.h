/* SPDX-License-Identifier: MIT
 * affine_kernels.h - turned, shifted, scaled and sheared images on CUDA. */
#ifndef AFFINE_KERNELS_H
#define AFFINE_KERNELS_H

#include "affine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device. `given` is [n] or NULL, `told` where to put the numbers or NULL,
 * `maps` room for [n], `status` int64[4]. Enqueues and returns a cudaError_t. */
int affine_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const affine_range *range,
                  const warp_how *how, const warp_affine *given, warp_affine *told, warp_map *maps, int64_t *status);

#ifdef __cplusplus
}
#endif
#endif
