/* SPDX-License-Identifier: MIT
 * cpu_net.h - runs a lowered network on the CPU. */
#ifndef NN_CPU_NET_H
#define NN_CPU_NET_H

#include "vec.h"
#include "dnnl_conv.h"
#include "../lower/walk.h"

#define NN_CHUNKS 16 /* pieces of a sum or of a product; fixed, so that the bits do not depend on the team */

typedef nn_low nn_cpu;

/* Takes over *net (which is emptied, also on failure), fills plan's outputs, weights and sizes. Output specs are
 * channels-last. */
int nn_cpu_plan(sp_ctx *ctx, nn_cpu *cpu, sp_plan *plan, nn_net *net, const nn_bind *in, int n_in, const nn_bind *out,
                int n_out);
int nn_cpu_prepare(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io);
int nn_cpu_forward(sp_ctx *ctx, const nn_cpu *cpu, const sp_io *io);
int nn_cpu_backward(sp_ctx *ctx, const nn_cpu *cpu, const sp_io *io);
int nn_cpu_apply(sp_ctx *ctx, const nn_cpu *cpu, const sp_io *io);
void nn_cpu_clear(nn_cpu *cpu);

/* ---- for the ops ------------------------------------------------------------------------------------------------- */
typedef struct nn_call {
  nn_walk w; /* w.more: memory of the workers */
  nn_par par;
} nn_call;

/* Where a weight gradient goes: p = beta p + alpha dW. p NULL: not wanted. */
typedef struct nn_grad {
  float *p, alpha, beta;
} nn_grad;

static inline float *nn_weight(const nn_call *c, int w) { return nn_weight_of(&c->w, w); }
/* Weights and bias of a product, with batch norm where it is folded; the bias may be NULL. */
const float *nn_product_weight(const nn_call *c, const nn_xop *op);
const float *nn_product_bias(const nn_call *c, const nn_xop *op);
/* What a product adds to its result, or NULL; and the backward of that. */
const float *nn_product_plus(const nn_call *c, const nn_xop *op);
int nn_plus_backward(const nn_call *c, const nn_xop *op);
static inline const nn_val *nn_val_of(const nn_call *c, int v) { return &c->w.low->vals[v]; }
static inline float *nn_data(const nn_call *c, int v) { return c->w.at[v].data; }
static inline const float *nn_dout(const nn_call *c, int v) { return c->w.at[v].grad; }
nn_grad nn_grad_of(const nn_call *c, int w);
int nn_fail(const nn_call *c, const nn_xop *op, const char *words);
/* Where the gradient of an op's input goes, or NULL; mask: the values whose sign decides, or NULL. */
float *nn_din(const nn_call *c, int v, int *acc, const float **mask);
static inline char *nn_worker(const nn_call *c, int worker) {
  return c->w.more + (size_t)worker * c->w.low->worker_bytes;
}
/* g.p[0..cols) = beta g.p + alpha * column sums of x[rows][cols * fold], the folds added; tmp: nn_colsum_bytes. */
int nn_bias_grad(const nn_call *c, nn_grad g, const float *x, int64_t rows, int64_t cols, int fold, float *tmp);
size_t nn_bias_bytes(int64_t cols, int fold);

/* Constants of a frozen network: weights with batch norm folded. */
void nn_fold_constants(const nn_cpu *cpu, const nn_xop *op, const sp_io *io, float *weights);
/* The activation of a product, on what it has written. */
int nn_act_behind(const nn_call *c, const nn_xop *op);

/* What the CPU does for a line of ops.list; NULL where there is nothing to do. Only plan() and prepare() change a plan.
 */
typedef struct nn_cpu_op {
  int (*forward)(const nn_call *c, const nn_xop *op);
  int (*backward)(const nn_call *c, const nn_xop *op);
  int (*size)(sp_ctx *ctx, nn_cpu *cpu, nn_xop *op); /* tmp and worker bytes, which are kept in the op */
  int (*prepare)(sp_ctx *ctx, const nn_cpu *cpu, nn_xop *op);
  int (*constants)(sp_ctx *ctx, const nn_cpu *cpu, const nn_xop *op, const sp_io *io); /* of a frozen network */
  int (*apply)(const nn_call *c, const nn_xop *op); /* products that may leave their gradients to the end of a step */
} nn_cpu_op;

#define NN_EXEC(ID, row, is) extern const nn_cpu_op nn_cpu_##row;
#define NN_EXEC_CUDA(ID, row, is)
#include "../ops/ops.list"
extern const nn_cpu_op *const nn_cpu_ops[NN_EXECS]; /* NULL: the CPU has no such kernel */

#endif
