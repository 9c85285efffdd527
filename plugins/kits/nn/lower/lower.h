/* SPDX-License-Identifier: MIT
 * lower.h - a network as the ops that a device runs: who computes what, in which pixel order each value lies, where. */
#ifndef NN_LOWER_H
#define NN_LOWER_H

#include "fold.h"
#include "../net/net.h"

/* Pixel order of a map. NN_PLANAR: N,C,H,W. 0: N,H,W,C. d > 0: as 0, but the pixels of each 2^d x 2^d tile in Z order,
 * so that the four pixels under a 2x2 kernel of stride 2 lie together: such a convolution, and its transpose, are then
 * plain matrix products, and their result is in Z order of depth d - 1, or d + 1. */
#define NN_PLANAR (-1)
#define NN_MAX_DEPTH 14

enum { NN_F32 = 0, NN_BF16 = 1 }; /* elements of a value */

typedef struct nn_val {
  int64_t c, h, w, px; /* px = h * w */
  int net, layout, elt;
  int in_port, in_item, out_port, out_item; /* -1: not bound to a port */
  int producer, uses, first, last;          /* ops */
  int masked;                               /* the one reader masks the gradient by ReLU when writing it */
  int unstored;                             /* CUDA: neither it nor its gradient is ever in memory */
  int rows, drows;                          /* from 1: the factor that it is, that its gradient is; 0: none */
  size_t off_infer, off_saved, off_grad;
  int32_t *yo, *xo; /* CPU: place of pixel y, x is yo[y] + xo[x] */
} nn_val;

typedef struct nn_xop {
  nn_op d;
  enum nn_exec x;
  int in, more[NN_MAX_INS - 1], out; /* as many as d has */
  int from, to;                      /* COPY: layouts; flattening goes to NN_PLANAR */
  int part, arrives;                 /* of a backward: its own, and the one that completes the gradient of `out` */
  int together;                      /* CUDA: its backward is one with that of another op */
  size_t off_stats;                  /* NORM, GROUP: mean and 1/std in `saved` */
  size_t off_w, off_b;               /* constants: with batch norm folded, or as the device has them */
  size_t off_back;                   /* CPU, CONV: likewise, packed for the gradient of what it reads */
  size_t tmp;                        /* bytes */
  size_t worker;                     /* CPU: bytes of each thread */
  struct nn_conv *conv;              /* CPU */
} nn_xop;

/* What differs between devices. */
typedef struct nn_target {
  int inner;        /* elements of values that are on no port */
  int conv_last;    /* CONV has its weights channels-last */
  int enlarges;     /* CONCAT repeats the pixels of a smaller map itself */
  int apart;        /* no GEMM has rows of several samples, but one row each */
  int acts;         /* CONV applies activations that fold (NN_FOLDS_ACT): no backward asks for what they read */
  unsigned no_mask; /* 1 << enum nn_exec: writes no masked gradient */
  int (*narrow)(int k, int64_t in, int64_t out); /* is there a kernel for so few channels? it reads and writes any
                                                    layout and element; NULL: there is none */
} nn_target;

typedef struct nn_low {
  nn_net net;
  nn_val *vals;
  nn_xop *ops;
  int n_vals, n_ops;
  size_t cap_vals, cap_ops;
  int64_t batch, shards;
  int training, frozen, n_parts, n_factors;
  sp_factor *factors; /* [n_factors] */
  int draws;          /* calls need step and ids */
  int threads;        /* CPU */
  size_t infer_bytes, saved_bytes, grad_bytes, tmp_bytes, worker_bytes;
  size_t const_bytes; /* of a frozen network: each a multiple of nn_align */
} nn_low;

static inline size_t nn_align(size_t n) { return (n + 255) & ~(size_t)255; }

/* Takes over *net (which is emptied, also on failure), makes the ops, fills plan's outputs and weights. Output specs
 * are channels-last. */
int nn_lower(sp_ctx *ctx, nn_low *low, const nn_target *target, sp_plan *plan, nn_net *net, const nn_bind *in, int n_in,
             const nn_bind *out, int n_out);
/* A product that adds a map to its result, by another op than a NARROW one. */
int nn_may_add(const nn_net *net, const nn_target *target, const nn_op *op);
/* A product that applies an activation that folds to its result. */
int nn_may_act(const nn_net *net, const nn_target *target, const nn_op *op);
/* fold.c: of a network whose weights stay as they are (`frozen`), batch norm behind a product goes into its weights, a
 * sum into the last of the products that it adds, and an activation into the product before it; of any, where the
 * target enlarges, a map that is enlarged for concatenations alone into these. keep[v]:
 * the value is seen from outside. */
void nn_fold(nn_net *net, const nn_target *target, const uint8_t *keep, int frozen);
/* Where constants of so many bytes lie. */
size_t nn_constant(nn_low *low, size_t bytes);
/* Of a norm: mean and 1/std of each channel, or of each sample's groups. */
size_t nn_stats_bytes(const nn_low *low, const nn_xop *op);
/* Gives every value its place in scratch or saved memory. */
int nn_place(sp_ctx *ctx, nn_low *low);
/* Cuts a backward into runs of ops, once it is known which values are stored: the largest, by bytes of gradients, is as
 * small as max_parts allows, but not below part_bytes. */
void nn_cut(nn_low *low, sp_plan *plan);
/* factors.c: which products leave their weights' gradients to the end of a step. Before nn_place(),
 * and behind nn_cut(). */
int nn_find_factors(sp_ctx *ctx, nn_low *low, const sp_plan *plan);
void nn_give_factors(nn_low *low, sp_plan *plan);
/* Extents of the product that op is for so many samples: y[m][n] = x[m][k] w[n][k]. */
void nn_extents(const nn_low *low, const nn_xop *op, int64_t samples, int64_t *m, int64_t *n, int64_t *k);
/* It lies among the factors itself; what lies on a port is copied there. */
static inline int nn_is_factor(const nn_val *v) { return v->rows && v->in_port < 0 && v->out_port < 0; }
static inline int nn_has_factors(const nn_low *low, const nn_xop *op) { return low->vals[op->out].drows > 0; }
size_t nn_weight_bytes(const nn_low *low, int weight);
/* Which output channel each element of op's weight is of, as that lies in memory. */
nn_channels nn_channels_of(const nn_low *low, const nn_xop *op);
/* Has the op a trained weight w (of two)? */
int nn_has_weight(const nn_op *op, int w);
/* The op that a backward runs together with this one, which alone reads its result; NULL: none. */
const nn_xop *nn_with(const nn_low *low, const nn_xop *op);
void nn_low_clear(nn_low *low);

#endif
