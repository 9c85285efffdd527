/* SPDX-License-Identifier: MIT
 * confusion_kernels.h - counting pairs on CUDA. */
#ifndef CONFUSION_KERNELS_H
#define CONFUSION_KERNELS_H

#include "confusion.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are of the device. */
typedef struct cfk_job {
  logit_shape shape;
  const float *x;
  const void *labels;
  int label_dtype;
  int64_t ignore;
  const uint64_t *ids; /* NULL: samples are counted */
  int64_t *counts;     /* [classes][classes] */
  int64_t *status;
  unsigned long long *bad; /* scratch: the first position with a label out of range */
} cfk_job;

/* Enqueues on the stream and returns a cudaError_t. */
int cfk_count(void *stream, const cfk_job *job);

#ifdef __cplusplus
}
#endif
#endif
