/* SPDX-License-Identifier: MIT
 * give.h - the kernel behind small copies from the device. */
#ifndef DEVICE_CUDA_GIVE_H
#define DEVICE_CUDA_GIVE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a copy of device memory to pinned memory, neither of which need be aligned. Returns a cudaError_t. */
int sp_cuda_give(void *stream, void *pinned, const void *from, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
