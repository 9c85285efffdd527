/* SPDX-License-Identifier: MIT
 * flip_kernels.h - mirrored images on CUDA. */
#ifndef FLIP_KERNELS_H
#define FLIP_KERNELS_H

#include "flip.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device. `given` is [n][2] or NULL, `flips` where to put what was done or
 * NULL, `status` int64[4]. Enqueues and returns a cudaError_t. */
int flip_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, flip_odds odds, const int32_t *given,
                int32_t *flips, int64_t *status);

#ifdef __cplusplus
}
#endif
#endif
