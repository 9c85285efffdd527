/* SPDX-License-Identifier: MIT
 * batch_rotate_kernels.h - turned images on CUDA. */
#ifndef BATCH_ROTATE_KERNELS_H
#define BATCH_ROTATE_KERNELS_H

#include "batch_rotate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device. `given` is [n] or NULL, `angles` where to put the angles or
 * NULL, `status` int64[4]. Enqueues and returns a cudaError_t. */
int rotate_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const rotate_how *how, const float *given,
                  float *angles, int64_t *status);

#ifdef __cplusplus
}
#endif
#endif
