/* SPDX-License-Identifier: MIT
 * erase_kernels.h - rectangles painted over on CUDA. */
#ifndef ERASE_KERNELS_H
#define ERASE_KERNELS_H

#include "erase.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device. `given` is [n] or NULL, `told` where to put the boxes or NULL,
 * `boxes` room for [n], `status` int64[4]. Enqueues and returns a cudaError_t. */
int erase_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const erase_range *range,
                 const erase_how *how, const erase_box *given, erase_box *told, erase_box *boxes, int64_t *status);

#ifdef __cplusplus
}
#endif
#endif
