/* SPDX-License-Identifier: MIT
 * adamw_kernels.h - the update of `adamw` on CUDA. */
#ifndef ADAMW_KERNELS_H
#define ADAMW_KERNELS_H

#include "../../kits/optim/optim_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Constants of an update; c: 1 - b. */
typedef struct adamw_rule {
  float b1, b2, c1, c2, eps;
  int clips, amsgrad;
} adamw_rule;

/* head and status are of the device. Enqueues on the stream and returns a cudaError_t. */
int adamwk_update(void *stream, const opk_table *t, const adamw_rule *rule, const opk_head *head, int64_t *status);

#ifdef __cplusplus
}
#endif
#endif
