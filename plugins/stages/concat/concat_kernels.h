/* SPDX-License-Identifier: MIT
 * concat_kernels.h - joining and splitting rows on CUDA. Each enqueues on the stream and returns a cudaError_t.
 *
 * The whole is `outer` rows of `all` floats; part k has run[k] of each row, behind those of the parts before it. */
#ifndef CONCAT_KERNELS_H
#define CONCAT_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CTK_LIST = 128 }; /* most parts of one launch */

int ctk_join(void *stream, float *y, const float *const *x, const int64_t *run, int n, int64_t outer, int64_t all);
/* dx[k] = (acc[k]: dx[k] +) its part of dy; dy NULL is zero. dx[k] may be NULL. */
int ctk_split(void *stream, float *const *dx, const uint8_t *acc, const int64_t *run, int n, const float *dy,
              int64_t outer, int64_t all);

#ifdef __cplusplus
}
#endif
#endif
