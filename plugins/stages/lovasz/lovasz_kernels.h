/* SPDX-License-Identifier: MIT
 * lovasz_kernels.h - the Lovasz-softmax loss and its gradient on CUDA. */
#ifndef LOVASZ_KERNELS_H
#define LOVASZ_KERNELS_H

#include "lovasz.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of loss_job.scratch, which is aligned to 16. */
size_t lovaszk_scratch(const logit_shape *shape);

/* Enqueues on the stream, returns a cudaError_t. */
int lovaszk_loss(void *stream, const loss_job *job, int all_classes);

#ifdef __cplusplus
}
#endif
#endif
