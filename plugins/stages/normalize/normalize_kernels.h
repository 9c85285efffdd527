/* SPDX-License-Identifier: MIT
 * normalize_kernels.h - (x - mean) / std on CUDA. */
#ifndef NORMALIZE_KERNELS_H
#define NORMALIZE_KERNELS_H

#include "normalize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues and returns a cudaError_t. */
int norm_launch(void *stream, const aug_jobs *jobs, const norm_terms *terms);

#ifdef __cplusplus
}
#endif
#endif
