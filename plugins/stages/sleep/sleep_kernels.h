/* SPDX-License-Identifier: MIT
 * sleep_kernels.h - waiting on CUDA. Each enqueues on the stream and returns a cudaError_t. */
#ifndef SLEEP_KERNELS_H
#define SLEEP_KERNELS_H

#include <stdint.h>

#include <spcore/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Holds the stream for so long with one block, which copies bytes (0: none) meanwhile, and traps at step fail_at; step
 * may be NULL. */
#define SLK_BYTES 65536 /* most that it copies */
int slk_wait(void *stream, double ms, const sp_step *step, int64_t fail_at, void *dst, const void *src, int bytes);
int slk_add(void *stream, float *dst, const float *src, int64_t n); /* dst += src */

#ifdef __cplusplus
}
#endif
#endif
