/* SPDX-License-Identifier: MIT
 * lt.h - what cuBLASLt offers for a product, and convolutions that are made of its products. */
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

/* taps.c: a convolution of stride 1, with a result as large as what it reads, as a product for each place in its kernel:
 * the forward in float32, and the gradient of the weights. */
typedef struct nnc_taps {
  nnc_call *c;
  const nn_xop *op;
  nnk_map x, y;  /* weights: y is the gradient */
  const void *w; /* forward: the weights; NULL: their gradient is wanted */
  nnk_sum g;
  char *work; /* a map as y for each place */
  int each;   /* one product after the other */
  cublasLtMatmulAlgo_t algo;
} nnc_taps;
size_t nnc_taps_work(const nn_low *low, const nn_xop *op, int64_t n, int forward); /* 0: not this way */
int nnc_taps_handle(nnc_call *c);                                                  /* before the others: a status */
int nnc_taps_offers(nnc_taps *t, cublasLtMatmulHeuristicResult_t *list);
int nnc_taps_run(const nnc_taps *t); /* 0: enqueued */

#endif
