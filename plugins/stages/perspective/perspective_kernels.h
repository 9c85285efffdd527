/* SPDX-License-Identifier: MIT
 * perspective_kernels.h - images seen from aside on CUDA. */
#ifndef PERSPECTIVE_KERNELS_H
#define PERSPECTIVE_KERNELS_H

#include "perspective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device. `given` is [n] or NULL, `told` where to put the corners or NULL,
 * `maps` room for [n], `status` int64[4]. Enqueues and returns a cudaError_t. */
int perspective_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const perspective_range *range,
                       const warp_how *how, const warp_corners *given, warp_corners *told, warp_map *maps,
                       int64_t *status);

#ifdef __cplusplus
}
#endif
#endif
