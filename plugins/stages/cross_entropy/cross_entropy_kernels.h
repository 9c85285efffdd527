/* SPDX-License-Identifier: MIT
 * cross_entropy_kernels.h - the loss and its gradient on CUDA. */
#ifndef CROSS_ENTROPY_KERNELS_H
#define CROSS_ENTROPY_KERNELS_H

#include "cross_entropy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are of the device. */
typedef struct cek_job {
  logit_shape shape;
  const float *x;
  float *g; /* NULL: no gradient */
  int acc;  /* add to g */
  const void *labels;
  int label_dtype;
  int64_t ignore;
  double weight;
  ce_smooth smooth;
  int stop; /* a loss that is not finite goes to status */
  const sp_step *step;
  const uint64_t *ids; /* NULL: samples are counted */
  float *loss;
  int64_t *status, *valid;
  void *scratch; /* cek_scratch() bytes, aligned to 16 */
} cek_job;

size_t cek_scratch(const logit_shape *shape, int class_weights);

/* class_weights: shape.classes numbers of the host, or NULL: all 1. Enqueues on the stream, returns a cudaError_t. */
int cek_loss(void *stream, const cek_job *job, const float *class_weights);

#ifdef __cplusplus
}
#endif
#endif
