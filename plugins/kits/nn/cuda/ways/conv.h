/* SPDX-License-Identifier: MIT
 * conv.h - jobs of convolutions: conv.c describes and calls them, cudnn.c has what cuDNN needs of them. */
#ifndef NN_CUDA_CONV_H
#define NN_CUDA_CONV_H

#include "way.h"

#include <cudnn.h>

/* Parts of the convolution a -> b. A transposed one runs those of the convolution that it transposes: its input is b.
 * */
enum { NNC_FWD, NNC_BWD_DATA, NNC_BWD_WEIGHTS, NNC_CONV_PARTS };

/* An algorithm may ask for more workspace than a lane has, the more the more samples: it is then run a slice at a time.
 * */
typedef struct nnc_slices {
  int64_t n;                      /* samples of a slice; the last one has the rest */
  cudnnTensorDescriptor_t a, b;   /* n samples */
  cudnnTensorDescriptor_t ra, rb; /* the rest; NULL: none */
} nnc_slices;

/* What cuDNN has of a convolution. */
typedef struct nnc_dnn {
  nnk_map a, b; /* without a place */
  int pad[2], dil[2];
  nnc_slices by[NNC_CONV_PARTS];
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  cudnnTensorDescriptor_t bias; /* NULL: cuDNN's call with bias and ReLU is no candidate */
  cudnnActivationDescriptor_t act;
} nnc_dnn;

struct nn_dconv {
  nn_dconv *next;
  nnk_map a, b; /* without a place */
  nnc_choice by[NNC_CONV_PARTS];
  nnc_dnn dnn, apart; /* of maps as they lie, and without dilation, of smaller maps; w NULL: it is no candidate */
};

/* A part of one, about to be enqueued. */
typedef struct nnc_conv {
  nnc_job job;
  nn_dconv *p;
  int part, add;
  const void *from, *w; /* FWD: a. BWD_DATA: b. BWD_WEIGHTS: a, and w is b */
  void *to;             /* but of BWD_WEIGHTS */
  nnk_sum sum;          /* BWD_WEIGHTS: where the gradient goes */
  void *grads;     /* BWD_WEIGHTS: memory for twice the gradient; NULL: it is measured, and any type may go to sum.p */
  char *work;      /* as nnc_ways_work() says */
  nnk_map y, plus; /* forward: the result, and what is added to it; p NULL: nothing */
} nnc_conv;

static inline int nnc_conv_transposed(const nn_xop *op) { return op->d.kind == NN_CONVT; }
static inline int64_t nnc_conv_weights(const nn_low *low, const nn_xop *op) {
  return (int64_t)(nn_weight_bytes(low, op->d.w) / sizeof(float));
}
/* Such a convolution of n samples. */
void nnc_conv_maps(const nn_low *low, const nn_xop *op, int64_t n, nnk_map *a, nnk_map *b);
static inline nnk_map nnc_placed(nnk_map m, const void *p) {
  m.p = (void *)(uintptr_t)p;
  return m;
}

/* ---- cudnn.c ---- */
int nnc_dnn_open(const nnc_call *c, const nn_xop *op, nn_dconv *p); /* 0, or what nnc_way_cudnn.words() knows */
void nnc_dnn_close(nn_dconv *p);

#endif
