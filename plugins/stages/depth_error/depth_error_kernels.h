/* SPDX-License-Identifier: MIT
 * depth_error_kernels.h - exact sums of relative and logarithmic differences on CUDA. */
#ifndef DEPTH_ERROR_KERNELS_H
#define DEPTH_ERROR_KERNELS_H

#include "depth_error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are of the device. */
typedef struct depthk_job {
  dev_shape s;
  depth_params p;
  const float *x, *y;
  int64_t *sums; /* [columns][DEPTH_CELLS] */
} depthk_job;

/* Enqueues on the stream and returns a cudaError_t. */
int depthk_sum(void *stream, const depthk_job *job);

#ifdef __cplusplus
}
#endif
#endif
