/* SPDX-License-Identifier: MIT
 * score_histogram_kernels.h - counting scores on CUDA. */
#ifndef SCORE_HISTOGRAM_KERNELS_H
#define SCORE_HISTOGRAM_KERNELS_H

#include "score_histogram.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are of the device. */
typedef struct shk_job {
  score_job s;
  shist_bins bins;
  int64_t *scores; /* [classes][2][bins] */
  int64_t *status;
  unsigned long long *bad; /* scratch: the first bad target, position * classes + class */
  double *all;             /* scratch: [positions] */
  float *max;              /* scratch: [positions] */
} shk_job;

/* Enqueues on the stream and returns a cudaError_t. */
int shk_count(void *stream, const shk_job *job);

#ifdef __cplusplus
}
#endif
#endif
