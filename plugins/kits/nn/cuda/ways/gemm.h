/* SPDX-License-Identifier: MIT
 * gemm.h - what the files of products share: gemm.c sizes and calls them, gemm_run.c enqueues one,
 * gemm_choose.c measures the ways in which that can be done. */
#ifndef NN_CUDA_GEMM_H
#define NN_CUDA_GEMM_H

#include "lt.h"

/* UPDATE: w += *scale * dw; APPLY: the same to the gradient's own memory, which it overwrites; BACKWARD: all of it */
enum kind { FORWARD, DATA, WEIGHT, UPDATE, APPLY, BACKWARD };
/* FUSED: with bias and ReLU. BACKWARD: PATCH or PLAIN. OUTER: outer.cu, which sums the columns of dy too. MASKED:
 * masked.cu, which masks dx and sums its columns. WIDE: wide.cu, with bias, sum and ReLU */
enum how { FUSED, PLAIN, SKINNY, PATCH, OUTER, MASKED, WIDE };

struct nn_product {
  nn_product *next;
  int kind, how, relu, biased, sums; /* sums: FORWARD adds a map to its result */
  int rows;                          /* it is over the rows of factors */
  int masks;                         /* DATA: by the sign of what is read, a map of so many channels; 0: not */
  int tall;                          /* MASKED: rows of a tile */
  int h, w;                          /* FORWARD: of its map, where WIDE is a candidate; 0: not */
  int columns;    /* the sums of dy's columns, of dx' in DATA, a bias' gradient, are wanted with it */
  int elt, d_elt; /* of both factors (but w in SKINNY), and of the result */
  int64_t samples, m, n, k;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayout_t a, b, d;
  cublasLtMatmulAlgo_t algo;
  const void *bias; /* that desc names: prepare()'s, a call with another one has a descriptor of its own */
};

/* One product, about to be enqueued. */
typedef struct nnc_gemm {
  nnc_call *c;
  const nn_product *p;
  nn_product *choosing; /* the same, while it is prepared */
  const void *a, *b;    /* FORWARD: w, x. DATA: w, dy. WEIGHT, UPDATE: x, dy */
  void *d;
  const float *master; /* w as float32 */
  const float *bias;
  const void *lt_bias; /* the same in the type of the result, as cuBLASLt takes it */
  nnk_map y, plus;     /* FORWARD; plus.p NULL: nothing is added */
  const void *wide;    /* FORWARD: w as wide.cu takes it; NULL: it does not */
  nnk_map dx, sign;    /* DATA; sign.p NULL: it is not masked */
  const float *scale;
  int add;
  nnk_sum db; /* from dy; p NULL: not wanted */
  nnk_map dy;
  void *pieces; /* for these sums, where the product does not make them on its way; DATA: for those of dx, if wanted */
  int64_t *n_pieces; /* DATA: how many there are then */
} nnc_gemm;

/* By numbers on the device. */
static inline int nnc_gemm_is_scaled(int kind) { return kind == UPDATE || kind == APPLY; }
static inline int nnc_gemm_is_own(const nn_product *p) {
  return p->how == SKINNY || p->how == OUTER || p->how == MASKED || p->how == WIDE;
}

/* The backward in one pass, or product by product. */
typedef struct nnc_whole {
  nnc_gemm data, update;
  nnk_map x, dx, dy;
  int relu, biased, patch;
  void *work;
} nnc_whole;

/* ---- gemm_run.c: 0, or a cudaError_t or cublasStatus_t but where it says otherwise ---- */
/* What the product is, for cuBLASLt; not 0: it refuses. */
int nnc_gemm_describe(nn_product *p, int precision, int fused, const void *bias);
void nnc_gemm_close(nn_product *p); /* undoes that */
int nnc_gemm_lt(const nnc_gemm *a);
int nnc_gemm_own(const nnc_gemm *a);
int nnc_gemm_columns(const nnc_gemm *a); /* the sums of dy's columns, unless the product makes them on its way */
int nnc_gemm_mask(const nnc_gemm *a);    /* dx' mask and the sums of its columns, likewise */
int nnc_gemm_whole(const nnc_gemm *a);   /* the product with both */
int nnc_gemm_may(const nnc_gemm *a, const nn_product *p, int how); /* 1: a kernel of our own can */
/* In one pass; dw, db and the sums of dx are what is to be added up. */
int nnc_gemm_patch(const nnc_whole *b, float *work, nnk_pieces *dw, nnk_pieces *db, nnk_pieces *data);

/* ---- gemm_choose.c ---- */
/* The product for as many samples as the call has; NULL: it was not prepared. */
const nn_product *nnc_gemm_find(const nnc_call *c, const nn_xop *op, int kind);
int nnc_gemm_handles(nnc_call *c); /* what cuBLASLt needs; a status */

/* ---- gemm.c ---- */
/* Whether one pass may compute the whole backward, where shapes and device allow it. */
int nnc_gemm_may_patch(const nn_cuda *cuda, const nn_xop *op);
const void *nnc_gemm_weight(const nnc_call *c, const nn_xop *op);  /* in the type of the maps */
const void *nnc_gemm_lt_bias(const nnc_call *c, const nn_xop *op); /* in that of the result */
const void *nnc_gemm_wide(const nnc_call *c, const nn_xop *op);

#endif
