/* SPDX-License-Identifier: MIT
 * pointwise_kernels.h - losses of single numbers on CUDA. */
#ifndef SP_PLUGINS_POINTWISE_KERNELS_H
#define SP_PLUGINS_POINTWISE_KERNELS_H

#include "pointwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of loss_job.scratch, which is aligned to 16. */
size_t pointk_scratch(void);

/* Enqueues on the stream, returns a cudaError_t. */
int pointk_loss(void *stream, const point_job *job);

#ifdef __cplusplus
}
#endif
#endif
