/* SPDX-License-Identifier: MIT
 * deviation_kernels.h - exact sums of differences on CUDA. */
#ifndef DEVIATION_KERNELS_H
#define DEVIATION_KERNELS_H

#include "deviation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are of the device. */
typedef struct devk_job {
  dev_shape s;
  const float *x, *y;
  int64_t *sums; /* [columns][DEV_CELLS] */
} devk_job;

/* Enqueues on the stream and returns a cudaError_t. */
int devk_sum(void *stream, const devk_job *job);

#ifdef __cplusplus
}
#endif
#endif
