/* SPDX-License-Identifier: MIT
 * lt.h - what cuBLASLt offers for a product. */
#ifndef NN_CUDA_LT_H
#define NN_CUDA_LT_H

#include "../cuda_net.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes" /* a declaration of cuBLASLt's own */
#include <cublasLt.h>
#pragma GCC diagnostic pop

enum { NNC_OFFERS = 8 };
/* Algorithms whose sums have a fixed order, within the workspace, for tensors at 16 bytes; returns how many. */
int nnc_lt_offers(const nnc_call *c, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                  cublasLtMatrixLayout_t d, cublasLtMatmulHeuristicResult_t *list);

#endif
