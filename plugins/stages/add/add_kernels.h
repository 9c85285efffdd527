/* SPDX-License-Identifier: MIT
 * add_kernels.h - sums of tensors on CUDA. Each enqueues on the stream and returns a cudaError_t. */
#ifndef ADD_KERNELS_H
#define ADD_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ADK_LIST = 128 }; /* most tensors of one launch */

/* y = (add: y +) x[0] + x[1] + ..., in this order */
int adk_sum(void *stream, float *y, const float *const *x, int n_x, int add, int64_t n);
/* dx[k] = (acc[k]: dx[k] +) dy; dy NULL is zero. dx[k] may be NULL. */
int adk_pass(void *stream, float *const *dx, const uint8_t *acc, int n_dx, const float *dy, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
