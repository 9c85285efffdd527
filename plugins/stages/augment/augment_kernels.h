/* SPDX-License-Identifier: MIT
 * augment_kernels.h - windows enlarged, turned, blurred and normalized in one kernel, on CUDA. */
#ifndef AUGMENT_KERNELS_H
#define AUGMENT_KERNELS_H

#include "augment.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a launch is told besides the tensors. Pointers are on the device; boxes, angles and sigmas: where to put what
 * was used, or NULL; `status` int64[4]. */
typedef struct augment_call {
  aug_dice dice;
  augment_given given;
  augment_how how;
  norm_terms norm;
  int32_t *boxes;
  float *angles, *sigmas;
  int64_t *status;
} augment_call;

/* Enqueues and returns a cudaError_t. */
int augment_launch(void *stream, const aug_jobs *jobs, const augment_call *call);

#ifdef __cplusplus
}
#endif
#endif
