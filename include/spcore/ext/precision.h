/* SPDX-License-Identifier: MIT
 *
 * spcore/ext/precision.h - "spcore.precision/1": the run option --precision.
 */
#ifndef SPCORE_EXT_PRECISION_H
#define SPCORE_EXT_PRECISION_H

#include "../abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_EXT_PRECISION "spcore.precision/1"

/* What matrix products and convolutions compute with. Weights, gradients of weights, moments, statistics and losses
 * are float32 in all of them.
 *   FP32  float32 throughout
 *   TF32  float32 in memory, TF32 in the tensor cores' products
 *   BF16  bfloat16 activations and products between the first and the last tensor of a network, float32 sums */
enum { SP_PRECISION_FP32 = 0, SP_PRECISION_TF32 = 1, SP_PRECISION_BF16 = 2 };

typedef struct sp_precision {
  uint32_t size;
  int32_t precision; /* of the run; constant for the life of the instance */
} sp_precision;

#ifdef __cplusplus
}
#endif
#endif
