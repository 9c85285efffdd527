/* SPDX-License-Identifier: MIT
 * to_float_kernels.h - bytes to float32 on CUDA. */
#ifndef TO_FLOAT_KERNELS_H
#define TO_FLOAT_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = in[i] * by; enqueues on the stream and returns a cudaError_t. */
int tfk_convert(void *stream, float *out, const uint8_t *in, int64_t n, float by);

#ifdef __cplusplus
}
#endif
#endif
