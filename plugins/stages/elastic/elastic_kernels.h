/* SPDX-License-Identifier: MIT
 * elastic_kernels.h - images moved by a field of displacements on CUDA. */
#ifndef ELASTIC_KERNELS_H
#define ELASTIC_KERNELS_H

#include "elastic.h"

/* What a call needs beside the tensors; everything that a pointer leads to is on the device. */
typedef struct elastic_call {
  aug_dice dice;
  elastic_range range;
  warp_how how;
  const float *given;    /* [n][h][w][2], or NULL */
  float *told, *scratch; /* told: the same, or NULL; scratch: two of them, where nothing is given */
} elastic_call;

#ifdef __cplusplus
extern "C" {
#endif

/* x, y: what smooths the field. Enqueues and returns a cudaError_t. */
int elastic_launch(void *stream, const aug_jobs *jobs, const elastic_call *call, const elastic_kernel *x,
                   const elastic_kernel *y);

#ifdef __cplusplus
}
#endif
#endif
