/* SPDX-License-Identifier: MIT
 * conv.h - what the files of convolutions share: conv.c describes and calls them, conv_run.c runs a part of one,
 * conv_choose.c measures the ways in which that can be done. */
#ifndef NN_CUDA_CONV_H
#define NN_CUDA_CONV_H

#include "lt.h"

#include <cudnn.h>

enum part { FWD, BWD_DATA, BWD_WEIGHTS, PARTS };
/* What is not cuDNN's, of all samples: a kernel, with bias, sum and ReLU; taps.c, all places at a time or one by one. */
enum own { NONE, KERNEL, TAPS, EACH_TAP };

/* An algorithm may ask for more workspace than a lane has, the more the more samples: it is then run a slice at a time. */
typedef struct slices {
  int algo;
  int fused, apart; /* with bias, sum and ReLU; as nn_dconv.apart has it */
  enum own own;
  int64_t n;                      /* samples of a slice; the last one has the rest */
  cudnnTensorDescriptor_t a, b;   /* of the convolution a -> b: n samples */
  cudnnTensorDescriptor_t ra, rb; /* the rest; NULL: none */
} slices;

struct nn_dconv {
  nn_dconv *next;
  nn_dconv *apart; /* without dilation, of smaller maps; NULL: no candidate */
  nnk_map a, b;    /* of the convolution a -> b, without a place */
  int pad[2], dil[2];
  slices by[PARTS];
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  cudnnTensorDescriptor_t bias; /* NULL: cuDNN's call with bias and ReLU is no candidate */
  cudnnActivationDescriptor_t act;
  cublasLtMatmulAlgo_t products[PARTS]; /* of TAPS and EACH_TAP */
};

typedef struct nnc_conv {
  nnc_call *c;
  const nn_xop *op;
  nn_dconv *p;
  int part, add;
  const void *from, *w; /* FWD: a. BWD_DATA: b. BWD_WEIGHTS: a, and w is b */
  void *to;
  nnk_sum sum;     /* BWD_WEIGHTS, own: in place of `to` */
  char *work;      /* as work_bytes() says */
  nnk_map y, plus; /* forward: the result, and what is added to it; p NULL: nothing */
} nnc_conv;

static inline int nnc_conv_transposed(const nn_xop *op) { return op->d.kind == NN_CONVT; }

static inline size_t nnc_sample_bytes(const nnk_map *m) {
  return (size_t)(m->c * m->h * m->w) * (m->elt == NNK_F32 ? 4 : 2);
}
static inline size_t nnc_bytes(const nnk_map *m) { return (size_t)m->n * nnc_sample_bytes(m); }

/* Describes slices of n samples. This and what follows: 0, or what went wrong, as cuDNN's but where it says otherwise. */
int nnc_conv_cut(nn_dconv *p, int part, int64_t n);

/* ---- conv_run.c ---- */
/* What cuDNN runs. */
static inline nn_dconv *nnc_conv_plan(const nnc_conv *a) { return a->p->by[a->part].apart ? a->p->apart : a->p; }
int nnc_conv_run(void *a); /* const nnc_conv *, here and below; what comes behind a forward is the caller's */
int nnc_conv_run_pass(const nnc_conv *a); /* that: bias, sum and ReLU, where they are not in the call; a cudaError_t */
int nnc_conv_run_whole(void *a);          /* as it is measured: both, in a frozen network */
/* What cuDNN is to do: *a itself, or the same of maps that lie apart, which are made for it; a cudaError_t. */
int nnc_conv_enter(const nnc_conv *a, nnc_conv *in);
int nnc_conv_run_slice(const nnc_conv *a, int64_t first, int add); /* the one whose first sample is `first` */
int nnc_conv_has_kernel(const nnc_conv *a);
int nnc_conv_has_taps(const nnc_conv *a);
nnc_taps nnc_conv_taps(const nnc_conv *a);

/* ---- conv_choose.c ---- */
int nnc_conv_choose(nnc_call *c, const nn_xop *op, nnc_conv *a); /* a status */

#endif
