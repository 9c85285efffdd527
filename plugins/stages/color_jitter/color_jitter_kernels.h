/* SPDX-License-Identifier: MIT
 * color_jitter_kernels.h - colours of images changed on CUDA. */
#ifndef COLOR_JITTER_KERNELS_H
#define COLOR_JITTER_KERNELS_H

#include "color_jitter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device. `given` is [n][JITTER_COLUMNS] or NULL, `factors` where to put
 * what was done or NULL, `status` int64[4]; sums: NULL where no sample needs a mean, or room for JITTER_PARTS +
 * JITTER_KEPT doubles an image and sample; `images` of the jobs are no masks; max: of floats.
 * Enqueues and returns a cudaError_t. */
int jitter_launch(void *stream, const aug_jobs *jobs, int images, const aug_dice *dice, const jitter_ranges *ranges,
                  const float *given, float *factors, int64_t *status, double *sums, float max);

#ifdef __cplusplus
}
#endif
#endif
