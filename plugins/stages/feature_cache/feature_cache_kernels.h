/* SPDX-License-Identifier: MIT
 * feature_cache_kernels.h - rows of a cache on CUDA. */
#ifndef FEATURE_CACHE_KERNELS_H
#define FEATURE_CACHE_KERNELS_H

#include "feature_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table is the device's, or pinned memory, which kernels read and write in its place; ids are the device's.
 * Enqueues on the stream and returns a cudaError_t. */
int cachek_move(void *stream, const cache_move *move, const uint64_t *ids);

#ifdef __cplusplus
}
#endif

#endif
