/* SPDX-License-Identifier: MIT
 * muon_product.h - products of matrices on the CPU whose bits are the same for any number of threads. */
#ifndef MUON_PRODUCT_H
#define MUON_PRODUCT_H

#include <spcore/abi.h>

#define MUON_PAD 16 /* rows and columns are multiples of it in memory, and 0 there */

static inline int64_t muon_padded(int64_t n) { return (n + MUON_PAD - 1) / MUON_PAD * MUON_PAD; }

/* c [m][n] = alpha * a [m][k] b [k][n] + beta * d [m][n], all row-major; b_transposed: b is [n][k]. Rows of a are lda
 * elements apart, those of b ldb, of c and d ldc. */
typedef struct muon_product {
  int64_t m, n, k;
  const float *a, *b, *d;
  float *c;
  int64_t lda, ldb, ldc;
  int b_transposed;
  float alpha, beta;
} muon_product;

int muon_multiply(sp_ctx *ctx, const muon_product *p);

#endif
