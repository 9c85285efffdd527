/* SPDX-License-Identifier: MIT
 * overlaps_kernels.h - the losses `dice`, `jaccard` and `tversky`, and their gradient, on CUDA. */
#ifndef OVERLAPS_KERNELS_H
#define OVERLAPS_KERNELS_H

#include "overlaps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of loss_job.scratch, which is aligned to 16. */
size_t overlapk_scratch(const logit_shape *shape);

/* Enqueues on the stream, returns a cudaError_t. */
int overlapk_loss(void *stream, const loss_job *job, const overlap_form *form);

#ifdef __cplusplus
}
#endif
#endif
