/* SPDX-License-Identifier: MIT
 * deviation_kernels.h - exact sums of differences on CUDA. */
#ifndef DEVIATION_KERNELS_H
#define DEVIATION_KERNELS_H

#include "deviation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of pointers of the device. Enqueues on the stream and returns a cudaError_t. */
int devk_sum(void *stream, const limb_job *job);

#ifdef __cplusplus
}
#endif
#endif
