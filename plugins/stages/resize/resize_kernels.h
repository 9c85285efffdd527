/* SPDX-License-Identifier: MIT
 * resize_kernels.h - images and masks at another size on CUDA. */
#ifndef RESIZE_KERNELS_H
#define RESIZE_KERNELS_H

#include "resize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* how: RESIZE_NEAR ... Every pointer in jobs is on the device. Enqueues and returns a cudaError_t. */
int resize_launch(void *stream, const aug_jobs *jobs, int how);

#ifdef __cplusplus
}
#endif
#endif
