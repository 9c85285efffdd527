/* SPDX-License-Identifier: MIT
 * ce_soft.h - the loss against probabilities of the classes, on the CPU. */
#ifndef SP_PLUGINS_CE_SOFT_H
#define SP_PLUGINS_CE_SOFT_H

#include "cross_entropy.h"

/* rows: the shares of a position lie side by side. class_weights: NULL: all 1. The scratch has a label_sum, a double
 * and an int64 for each chunk. */
int ce_soft_loss(sp_ctx *ctx, const loss_job *job, int rows, const ce_smooth *smooth, const float *class_weights);

#endif
