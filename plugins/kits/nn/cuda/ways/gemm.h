/* SPDX-License-Identifier: MIT
 * gemm.h - jobs of products: gemm.c sizes and calls them, gemm_prepare.c has their ways chosen, gemm_whole.c has that
 * done for a backward at once. */
#ifndef NN_CUDA_GEMM_H
#define NN_CUDA_GEMM_H

#include "lt.h"
#include "way.h"

/* What cuBLASLt has of a product. */
typedef struct nnc_lt {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayout_t a, b, d;
  const void *bias; /* that desc names: prepare()'s, a call with another one has a descriptor of its own */
} nnc_lt;

struct nn_product {
  nn_product *next;
  nnc_choice by;
  int part;               /* enum nnc_part */
  int relu, biased, sums; /* sums: FORWARD adds a map to its result */
  int rows;               /* it is over the rows of factors */
  int masks;              /* DATA: by the sign of what is read, a map of so many channels; 0: not */
  int columns;            /* the sums of dy's columns, of dx' in DATA, a bias' gradient, are wanted with it */
  int elt, d_elt;         /* of both factors, and of the result */
  int64_t samples, m, n, k;
  nnc_lt lt;
};

/* One product, about to be enqueued. */
typedef struct nnc_gemm {
  nnc_job job;
  nn_product *p;
  const void *a, *b; /* FORWARD: w, x. DATA: w, dy. WEIGHT, UPDATE, APPLY: x, dy */
  void *d;
  const float *master; /* w as float32 */
  const float *bias;
  const void *lt_bias; /* the same in the type of the result, as cuBLASLt takes it */
  nnk_map y, plus;     /* FORWARD; plus.p NULL: nothing is added */
  nnk_map dx, sign;    /* DATA; sign.p NULL: it is not masked */
  const float *scale;
  int add;
  nnk_sum db; /* from dy; p NULL: not wanted */
  nnk_map dy;
  void *pieces; /* for these sums, where the product does not make them on its way; DATA: for those of dx, if wanted */
  int64_t *n_pieces; /* DATA: how many there are then */
} nnc_gemm;

/* By numbers on the device. */
static inline int nnc_gemm_is_scaled(int part) { return part == NNC_UPDATE || part == NNC_APPLY; }

/* A backward: at once, with sums that are still to be added up, or product by product. */
enum { NNC_OF_WEIGHT, NNC_OF_DY, NNC_OF_DX, NNC_WHOLE_SUMS };
typedef struct nnc_whole {
  nnc_job job;
  nnc_gemm data, update;
  nnk_map x, dx, dy;
  int relu, biased;
  float *work;      /* for the sums' pieces */
  nnk_pieces *sums; /* NNC_WHOLE_SUMS, without a dst */
  float *bias;      /* while it is measured: the gradient */
} nnc_whole;

/* ---- gemm.c: 0, or what went wrong as the product's way has it ---- */
int nnc_gemm_run(const nnc_gemm *a); /* the product with what its way leaves undone, but for bias and ReLU */
const void *nnc_gemm_weight(const nnc_call *c, const nn_xop *op);  /* in the type of the maps */
const void *nnc_gemm_lt_bias(const nnc_call *c, const nn_xop *op); /* in that of the result */

/* ---- gemm_prepare.c ---- */
/* The product for as many samples as the call has; NULL: it was not prepared. */
nn_product *nnc_gemm_find(const nnc_call *c, const nn_xop *op, int part);
nn_product *nnc_gemm_new(const nnc_call *c, const nn_xop *op, int part, int64_t samples); /* NULL: no memory */
int nnc_gemm_handles(nnc_call *c); /* what cuBLASLt needs; a status */

/* ---- gemm_whole.c: statuses ---- */
int nnc_whole_prepare(nnc_call *c, const nn_xop *op); /* after the products */
/* dx and dw are both wanted; a masked gradient is complete, and its sums are those of the bias before it. */
int nnc_whole_backward(nnc_call *c, const nn_xop *op, const nnk_map *dx, int add, int relu);

/* ---- ways, for each other ---- */
void nnc_lt_close(nnc_lt *lt);
int nnc_outer_run(const nnc_gemm *a, int product); /* product 0: only the sums of dy's columns, of any shape */

#endif
