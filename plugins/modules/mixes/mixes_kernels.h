/* SPDX-License-Identifier: MIT
 * mixes_kernels.h - images and labels mixed on CUDA. */
#ifndef MIXES_KERNELS_H
#define MIXES_KERNELS_H

#include "mixes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that a pointer leads to is on the device, but for the structs themselves. given and told: n rows or NULL;
 * rows: n rows of room. Enqueues on the stream, returns a cudaError_t. */
int mixes_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const mixes_range *range,
                 const mixes_labels *labels, const mixes_row *given, mixes_row *told, mixes_row *rows, int64_t *status);

#ifdef __cplusplus
}
#endif
#endif
