/* SPDX-License-Identifier: MIT
 * sgd_kernels.h - the update of `sgd` on CUDA. */
#ifndef SGD_KERNELS_H
#define SGD_KERNELS_H

#include "../../kits/optim/optim_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Constants of an update. */
typedef struct sgd_rule {
  float mu;
  int momentum, nesterov, clips;
} sgd_rule;

/* head and status are of the device. Enqueues on the stream and returns a cudaError_t. */
int sgdk_update(void *stream, const opk_table *t, const sgd_rule *rule, const opk_head *head, int64_t *status);

#ifdef __cplusplus
}
#endif
#endif
