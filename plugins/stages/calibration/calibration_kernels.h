/* SPDX-License-Identifier: MIT
 * calibration_kernels.h - reliability of probabilities on CUDA. */
#ifndef CALIBRATION_KERNELS_H
#define CALIBRATION_KERNELS_H

#include "calibration.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are of the device. */
typedef struct calk_job {
  score_job s;
  int bins;
  int64_t *reliability; /* [bins][CAL_N] */
  int64_t *status;
  unsigned long long *bad; /* scratch: the first bad target, position * classes + class */
} calk_job;

/* Enqueues on the stream and returns a cudaError_t. */
int calk_count(void *stream, const calk_job *job);

#ifdef __cplusplus
}
#endif
#endif
