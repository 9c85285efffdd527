/* SPDX-License-Identifier: MIT
 * boundary_kernels.h - boundaries of masks on CUDA. */
#ifndef BOUNDARY_KERNELS_H
#define BOUNDARY_KERNELS_H

#include "boundary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are of the device. */
typedef struct bndk_job {
  logit_shape s;
  bnd_size size;
  const float *x;
  const void *labels;
  int label_dtype;
  int64_t ignore;
  const uint64_t *ids; /* NULL: samples are counted */
  int64_t *boundaries; /* [classes][BND_N] */
  int64_t *status;
  unsigned long long *bad;      /* scratch: the first position with a label out of range */
  bnd_class *predicted, *truth; /* scratch: [n][px] */
} bndk_job;

/* Enqueues on the stream and returns a cudaError_t. */
int bndk_count(void *stream, const bndk_job *job);

#ifdef __cplusplus
}
#endif
#endif
