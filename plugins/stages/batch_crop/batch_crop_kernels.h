/* SPDX-License-Identifier: MIT
 * batch_crop_kernels.h - windows out of images on CUDA. */
#ifndef BATCH_CROP_KERNELS_H
#define BATCH_CROP_KERNELS_H

#include "batch_crop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device. `given` is [n][2] or NULL, `boxes` where to put the boxes or
 * NULL, `status` int64[4]. Enqueues and returns a cudaError_t. */
int crop_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const int32_t *given, int32_t *boxes,
                int64_t *status, int mode);

#ifdef __cplusplus
}
#endif
#endif
