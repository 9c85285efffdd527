/* SPDX-License-Identifier: MIT
 * batch_resized_crop_kernels.h - windows of random area and ratio on CUDA. */
#ifndef BATCH_RESIZED_CROP_KERNELS_H
#define BATCH_RESIZED_CROP_KERNELS_H

#include "batch_resized_crop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device, but for `dice` and `range` themselves. `given` is [n] or NULL,
 * `told` where the boxes go or NULL, `boxes` [n] of scratch, `status` int64[4], `how` RESIZE_NEAR ...
 * Enqueues and returns a cudaError_t. */
int zoom_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const zoom_range *range,
                const zoom_box *given, zoom_box *told, zoom_box *boxes, int64_t *status, int how);

#ifdef __cplusplus
}
#endif
#endif
