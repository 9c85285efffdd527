/* SPDX-License-Identifier: MIT
 * cuda_lt.h - what cuBLASLt offers for a product, and convolutions that are made of its products. */
#ifndef NN_CUDA_LT_H
#define NN_CUDA_LT_H

#include "cuda_net.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes" /* a declaration of cuBLASLt's own */
#include <cublasLt.h>
#pragma GCC diagnostic pop

enum { NNC_OFFERS = 8 };
/* Algorithms whose sums have a fixed order, within the workspace, for tensors at 16 bytes; returns how many. */
int nnc_lt_offers(const nnc_call *c, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                  cublasLtMatrixLayout_t d, cublasLtMatmulHeuristicResult_t *list);

/* cuda_taps.c: the gradient of the weights of a convolution with dilation, stride 1, and a result as large as what it
 * reads, as a product for each place in the kernel. */
typedef struct nnc_taps {
  nnc_call *c;
  const nn_xop *op;
  nnk_map x, dy;
  nnk_sum g;
  void *work; /* as large as dy */
  cublasLtMatmulAlgo_t algo;
} nnc_taps;
int nnc_taps_fit(const nn_low *low, const nn_xop *op);
int nnc_taps_handle(nnc_call *c); /* before the others: a status */
int nnc_taps_offers(nnc_taps *t, cublasLtMatmulHeuristicResult_t *list);
int nnc_taps_run(const nnc_taps *t); /* 0: enqueued */

#endif
