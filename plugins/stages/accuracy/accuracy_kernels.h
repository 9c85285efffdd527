/* SPDX-License-Identifier: MIT
 * accuracy_kernels.h - counting correct samples on CUDA. */
#ifndef ACCURACY_KERNELS_H
#define ACCURACY_KERNELS_H

#include "accuracy.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ACK_BLOCKS = 256 }; /* at most */

typedef struct ack_sums {
  int64_t top1, topk, counted;
  int64_t bad; /* the first sample with a label out of range, or -1 */
} ack_sums;

/* All pointers are of the device. */
typedef struct ack_job {
  const float *x;
  const void *labels;
  int label_dtype;
  int64_t n, classes, k, ignore;
  const uint64_t *ids; /* NULL: samples are counted */
  int64_t *top1, *topk, *counted, *status;
  ack_sums *sums; /* scratch: [ACK_BLOCKS] */
} ack_job;

/* Enqueues on the stream and returns a cudaError_t. */
int ack_count(void *stream, const ack_job *job);

#ifdef __cplusplus
}
#endif
#endif
