/* SPDX-License-Identifier: MIT
 * blur_kernels.h - Gaussian blur on CUDA. */
#ifndef BLUR_KERNELS_H
#define BLUR_KERNELS_H

#include "blur.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a launch is told besides the tensors. Pointers are on the device: `given` is [n] or NULL, `sigmas` where to put
 * the sigmas or NULL, `status` int64[4]. */
typedef struct blur_call {
  aug_dice dice;
  const float *given;
  float *sigmas;
  int64_t *status;
  float lo, hi;
  int32_t rx, ry;
} blur_call;

/* Enqueues and returns a cudaError_t. */
int blur_launch(void *stream, const aug_jobs *jobs, const blur_call *call);

#ifdef __cplusplus
}
#endif
#endif
