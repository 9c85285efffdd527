/* SPDX-License-Identifier: MIT
 * hash.h - the kernel behind stream_hash. */
#ifndef DEVICE_CUDA_HASH_H
#define DEVICE_CUDA_HASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues the checksum of device memory; *sum is pinned memory. Returns a cudaError_t. */
int sp_cuda_hash(void *stream, const void *data, size_t bytes, uint64_t *sum);

#ifdef __cplusplus
}
#endif
#endif
