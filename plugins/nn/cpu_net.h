/* SPDX-License-Identifier: MIT
 * cpu_net.h - runs a network on the CPU: where each value lies, in which pixel order, and who computes it. */
#ifndef NN_CPU_NET_H
#define NN_CPU_NET_H

#include "cpu_vec.h"
#include "dnnl_conv.h"
#include "net.h"

#define NN_CHUNKS 16 /* pieces of a sum or of a product; fixed, so that the bits do not depend on the team */

/* Pixel order of a map. NN_PLANAR: N,C,H,W. 0: N,H,W,C. d > 0: as 0, but the pixels of each 2^d x 2^d tile in Z order,
 * so that the four pixels under a 2x2 kernel of stride 2 lie together: such a convolution, and its transpose, are then
 * plain matrix products, and their result is in Z order of depth d - 1, or d + 1. */
#define NN_PLANAR (-1)
#define NN_MAX_DEPTH 14

typedef struct nn_val {
  int64_t c, h, w, px; /* px = h * w */
  int net, layout;
  int in_port, in_item, out_port, out_item; /* -1: not bound to a port */
  int producer, uses, first, last;          /* ops */
  int masked;                               /* the one reader masks the gradient by ReLU when writing it */
  size_t off_infer, off_saved, off_grad;
  int32_t *yo, *xo; /* place of pixel y, x is yo[y] + xo[x] */
  /* of the call in progress */
  float *data, *grad;
  int gset, need, wanted;
} nn_val;

enum nn_exec { NN_X_GEMM, NN_X_CONV, NN_X_NORM, NN_X_POOL, NN_X_RELU, NN_X_ADD, NN_X_CONCAT, NN_X_COPY };

typedef struct nn_xop {
  nn_op d;
  int x; /* enum nn_exec */
  int in, in2, out;
  int from, to; /* COPY: layouts; flattening goes to NN_PLANAR */
  nn_conv *conv;
  size_t off_stats;   /* NORM: mean and 1/std in `saved` */
  size_t tmp, worker; /* bytes */
} nn_xop;

typedef struct nn_cpu {
  nn_net net;
  nn_val *vals;
  nn_xop *ops;
  int n_vals, n_ops;
  size_t cap_vals, cap_ops;
  int64_t batch;
  int training, frozen, threads;
  size_t infer_bytes, saved_bytes, grad_bytes, tmp_bytes, worker_bytes;
} nn_cpu;

/* Takes over *net (which is emptied, also on failure), fills plan's outputs, weights and sizes. Output specs are
 * channels-last. */
int nn_cpu_plan(sp_ctx *ctx, nn_cpu *cpu, sp_plan *plan, nn_net *net, const nn_bind *in, int n_in, const nn_bind *out,
                int n_out);
int nn_cpu_prepare(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io);
int nn_cpu_forward(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io);
int nn_cpu_backward(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io);
void nn_cpu_clear(nn_cpu *cpu);

/* ---- for the ops ------------------------------------------------------------------------------------------------- */
typedef struct nn_call {
  sp_ctx *ctx;
  nn_par par;
  nn_cpu *cpu;
  const sp_io *io;
  int64_t n;
  int batch_stats; /* batch norm uses and updates statistics of the batch */
  char *tmp, *worker;
} nn_call;

/* Where a weight gradient goes: p = beta p + alpha dW. p NULL: not wanted. */
typedef struct nn_grad {
  float *p, alpha, beta;
} nn_grad;

static inline float *nn_weight(const nn_call *c, int w) { return c->io->weights[w].data; }
nn_grad nn_grad_of(const nn_call *c, int w);
int nn_fail(const nn_call *c, const nn_xop *op, const char *words);
/* Where the gradient of an op's input goes, or NULL; mask: the values whose sign decides, or NULL. */
float *nn_din(const nn_call *c, int v, int *acc, const float **mask);
static inline char *nn_worker(const nn_call *c, int worker) {
  return c->worker + (size_t)worker * c->cpu->worker_bytes;
}
/* g.p[0..cols) = beta g.p + alpha * column sums of x[rows][cols * fold], the folds added; tmp: nn_colsum_bytes. */
int nn_bias_grad(const nn_call *c, nn_grad g, const float *x, int64_t rows, int64_t cols, int fold, float *tmp);
size_t nn_bias_bytes(int64_t cols, int fold);

/* tmp and worker bytes are kept in the op. */
void nn_gemm_size(const nn_cpu *cpu, nn_xop *op);
int nn_gemm_forward(const nn_call *c, const nn_xop *op);
int nn_gemm_backward(const nn_call *c, const nn_xop *op);
int nn_convs_plan(sp_ctx *ctx, const nn_cpu *cpu, nn_xop *op);
int nn_convs_prepare(sp_ctx *ctx, const nn_cpu *cpu, nn_xop *op);
int nn_convs_forward(const nn_call *c, const nn_xop *op);
int nn_convs_backward(const nn_call *c, const nn_xop *op);
void nn_norm_size(const nn_cpu *cpu, nn_xop *op);
int nn_norm_forward(const nn_call *c, const nn_xop *op);
int nn_norm_backward(const nn_call *c, const nn_xop *op);
int nn_pool_forward(const nn_call *c, const nn_xop *op);
int nn_pool_backward(const nn_call *c, const nn_xop *op);
int nn_move_forward(const nn_call *c, const nn_xop *op); /* RELU, ADD, CONCAT, COPY */
int nn_move_backward(const nn_call *c, const nn_xop *op);

#endif
