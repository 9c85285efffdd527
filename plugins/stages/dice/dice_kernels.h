/* SPDX-License-Identifier: MIT
 * dice_kernels.h - the Dice loss and its gradient on CUDA. */
#ifndef DICE_KERNELS_H
#define DICE_KERNELS_H

#include "dice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of loss_job.scratch, which is aligned to 16. */
size_t dicek_scratch(const logit_shape *shape);

/* Enqueues on the stream, returns a cudaError_t. */
int dicek_loss(void *stream, const loss_job *job, double smooth, double eps);

#ifdef __cplusplus
}
#endif
#endif
