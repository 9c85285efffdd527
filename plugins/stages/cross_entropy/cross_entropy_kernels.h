/* SPDX-License-Identifier: MIT
 * cross_entropy_kernels.h - the loss and its gradient on CUDA. */
#ifndef CROSS_ENTROPY_KERNELS_H
#define CROSS_ENTROPY_KERNELS_H

#include "cross_entropy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of loss_job.scratch, which is aligned to 16. */
size_t cek_scratch(const logit_shape *shape, int class_weights);

/* rows: where there are shares, those of a position lie side by side. class_weights: shape.classes numbers of the host,
 * or NULL: all 1. Enqueues on the stream, returns a cudaError_t. */
int cek_loss(void *stream, const loss_job *job, int rows, const ce_smooth *smooth, const float *class_weights);

#ifdef __cplusplus
}
#endif
#endif
