/* SPDX-License-Identifier: MIT
 * depth_error_kernels.h - exact sums of relative and logarithmic differences on CUDA. */
#ifndef DEPTH_ERROR_KERNELS_H
#define DEPTH_ERROR_KERNELS_H

#include "depth_error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of pointers of the device; `params` are the host's. Enqueues on the stream and returns a cudaError_t. */
int depthk_sum(void *stream, const limb_job *job, const depth_params *params);

#ifdef __cplusplus
}
#endif
#endif
