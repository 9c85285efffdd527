/* SPDX-License-Identifier: MIT
 * dropout_kernels.h - dropout on CUDA. */
#ifndef DROPOUT_KERNELS_H
#define DROPOUT_KERNELS_H

#include "dropout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* to = (add: to +) what is left of `from`; NULL is zero. step and ids are of the device. Enqueues on the stream and
 * returns a cudaError_t. */
int dropk_run(void *stream, const drop_shape *shape, const sp_step *step, const uint64_t *ids, const float *from,
              float *to, int add);

#ifdef __cplusplus
}
#endif
#endif
