/* SPDX-License-Identifier: MIT
 * argmax_kernels.h - logits to labels on CUDA. */
#ifndef ARGMAX_KERNELS_H
#define ARGMAX_KERNELS_H

#include <stdint.h>

#include "../../kits/labels/labels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mask[i]: the class of the largest of position i's logits. Enqueues on the stream and returns a cudaError_t. */
int amk_labels(void *stream, uint8_t *mask, const float *logits, const logit_shape *shape);

#ifdef __cplusplus
}
#endif
#endif
