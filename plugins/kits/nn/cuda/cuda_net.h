/* SPDX-License-Identifier: MIT
 * cuda_net.h - runs a lowered network on CUDA. */
#ifndef NN_CUDA_NET_H
#define NN_CUDA_NET_H

#include <spcore/ext/cuda.h>
#include <spcore/ext/precision.h>

#include "kernels.h"
#include "ways/device.h"
#include "../lower/walk.h"

typedef struct nn_product nn_product; /* cuda/ways/gemm.h: a matrix product for one N */
typedef struct nn_dconv nn_dconv;     /* cuda/ways/conv.h: a convolution for one N */
typedef struct nnc_group nnc_group;   /* cuda/ways/way.h: ops that one way can compute at once */

enum {
#define NNC_WAY(ID, name) NNC_WAY_##ID,
#include "ways/ways.list"
  NNC_WAYS
};

/* Of each op, beside its nn_xop. Offsets, and those of constants there, are into the fixed part. */
typedef struct nn_cop {
  nn_product *products;
  nn_dconv *convs;
  size_t off_cast;     /* GEMM, CONV: the weights as bfloat16 */
  size_t off_narrow;   /* the bias as bfloat16: GEMM whose result is of bfloat16, CONV of a frozen network */
  size_t off_bias;     /* GEMM: the bias, once for each pixel under the kernel */
  size_t off_pieces;   /* GEMM, CONV: of the bias' gradient, behind tmp; of all shards in an apply() */
  /* Of each way: its constants, 0: none, or sums that it leaves until the end of a backward, behind tmp too. */
  size_t at[NNC_WAYS];
  nnc_group *group; /* of which it is a part, or NULL */
} nn_cop;

/* What a part of a backward leaves for later ones of an op's bias' gradient. */
typedef struct nnc_left {
  int64_t pieces;  /* as nnc_call.pieces */
  nnk_pieces sums; /* pieces -1: what is to be added up */
} nnc_left;

typedef struct nn_cuda {
  nn_low low;
  nn_cop *cops;
  nnc_group *groups; /* n_groups of them */
  int n_groups;
  nnc_left *left; /* of each op; NULL: a backward is one call. Else calls of a backward write it */
  const sp_cuda *ext;
  nnc_device device; /* as it was planned for */
  int precision;
  size_t pieces_bytes;
  /* Front of scratch, or the constants of a frozen network: biases, weights as bfloat16 or with batch norm folded. */
  size_t fixed_bytes;
  const float *numbers; /* 0 and 1 on the device: what products there add to what they find is this many times it */
} nn_cuda;

int nn_cuda_plan(sp_ctx *ctx, nn_cuda *cuda, sp_plan *plan, nn_net *net, const nn_bind *in, int n_in,
                 const nn_bind *out, int n_out);
int nn_cuda_prepare(sp_ctx *ctx, nn_cuda *cuda, const sp_io *io);
int nn_cuda_forward(sp_ctx *ctx, const nn_cuda *cuda, const sp_io *io);
int nn_cuda_backward(sp_ctx *ctx, const nn_cuda *cuda, const sp_io *io);
int nn_cuda_apply(sp_ctx *ctx, const nn_cuda *cuda, const sp_io *io);
void nn_cuda_clear(nn_cuda *cuda);

/* ---- for the ops ------------------------------------------------------------------------------------------------- */
typedef struct nnc_call {
  nn_walk w; /* w.more: pieces, as nn_cop says; prepare(): w.tmp is all behind `fixed` */
  const nn_cuda *cuda;
  void *stream;
  char *fixed;      /* as nn_cuda.fixed_bytes says */
  void *lt, *cudnn; /* handles, NULL: not asked for yet */
  void *workspace;  /* NULL: not asked for yet */
  int64_t *pieces; /* backward, of each op: so many of its bias' gradient are there, left by the pass that completed the
                      * gradient; -1: they lie elsewhere and are to be added up already */
  nnk_pieces later[NNK_LIST]; /* sums of this backward that are still to be added up */
  int n_later;
} nnc_call;

static inline size_t nnc_index(const nnc_call *c, const nn_xop *op) { return (size_t)(op - c->cuda->low.ops); }
static inline const nn_cop *nnc_cop(const nnc_call *c, const nn_xop *op) { return &c->cuda->cops[nnc_index(c, op)]; }
static inline void *nnc_weight(const nnc_call *c, int w) { return nn_weight_of(&c->w, w); }
/* What products of the network round to, SP_PRECISION_... */
static inline int nnc_rounds(const nn_cuda *cuda) { return nnc_device_rounds(&cuda->device, cuda->precision); }
size_t nnc_fixed(nn_cuda *cuda, size_t bytes); /* where so many bytes of it lie */
/* Of a product, in float32 and with batch norm where it is folded; the bias may be NULL. */
const float *nnc_product_weight(const nnc_call *c, const nn_xop *op);
const float *nnc_product_bias(const nnc_call *c, const nn_xop *op);
static inline int nnc_has_bias(const nn_xop *op) { return op->d.bias || op->d.norm; }
/* What it adds to its result, p NULL: nothing; and the backward of that. */
nnk_map nnc_product_plus(const nnc_call *c, const nn_xop *op);
int nnc_plus_backward(nnc_call *c, const nn_xop *op);
/* Value v for n samples, without a place. */
nnk_map nnc_map(const nn_val *v, int64_t n);
size_t nnc_map_bytes(const nn_val *v, int64_t n);
/* Where the gradient of weight w goes; p NULL: nowhere. Of apply(), see nn_applied(). */
nnk_sum nnc_applied(const nnc_call *c, int w);
nnk_sum nnc_grad_of(const nnc_call *c, int w);
/* Value v in this call, and its gradient. */
nnk_map nnc_data(const nnc_call *c, int v);
nnk_map nnc_grad(const nnc_call *c, int v);
/* Where the gradient of a value goes; not to be copied, since it points into itself. */
typedef struct nnc_into {
  nnk_map map, sign;
  const nnk_map *dx, *mask; /* NULL: nowhere; whose sign decides, or NULL */
  int add;                  /* to what is there */
} nnc_into;
void nnc_din(const nnc_call *c, int v, nnc_into *into);
/* dx = masked dy, complete; dx is the gradient of value v. Where the op that made v wants its bias' gradient its
 * sums are taken in the same pass. */
int nnc_mask(nnc_call *c, int v, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask);
/* The same where these are the sums of the complete gradient of value v; their dst is found here. */
int nnc_bias_later(nnc_call *c, int v, nnk_pieces sums);
/* Where another pass that masks it leaves pieces of these sums and says how many; NULL: they are not wanted. */
float *nnc_mask_sums(nnc_call *c, int v, int64_t **pieces);
/* Has the op a bias whose gradient is such sums? */
static inline int nnc_sums_bias(const nn_xop *op) { return op->d.bias && (op->x == NN_X_GEMM || op->x == NN_X_CONV); }
/* Bytes of the pieces, of value v's gradient dx, whichever pass leaves them. */
size_t nnc_sums_work(const nn_cuda *cuda, int v, const nnk_map *dx);
/* The gradient of op's bias, if it has one and it is wanted; it is there at the end of the backward. */
int nnc_bias_grad(nnc_call *c, const nn_xop *op);
/* Adds up pieces at the end of the backward; until then they must stay, so they do not lie in tmp. */
int nnc_add_later(nnc_call *c, const nnk_pieces *p);
/* Fails with CUDA's words if err is not 0. */
int nnc_check(const nnc_call *c, const nn_xop *op, int err);
int nnc_fail(const nnc_call *c, const nn_xop *op, int status, const char *words);
int nnc_workspace(nnc_call *c); /* asks for it */

/* cuda/ways/tune.c: the mean time of fn, which enqueues something on the call's stream; negative: fn fails. */
double nnc_measure(const nnc_call *c, int (*fn)(void *arg), void *arg);
/* The same where nothing of it is in the cache any more, as weights are that a step reads once; as far as the
 * workspace, which must be there, is larger than the cache. */
double nnc_measure_cold(const nnc_call *c, int (*fn)(void *arg), void *arg);
/* Takes the choice that holds for key: one that was kept, if take() can use it (1), else what measure() writes, or what
 * another process has stored meanwhile. Both get arg; measure() gives a status. */
int nnc_tuned(const nnc_call *c, const char *key, int (*take)(void *arg, const char *text),
              int (*measure)(void *arg, const char *key, char *text, size_t bytes), void *arg);
/* Fails where every candidate did: with these words about the key, or the device's if it is the one that failed. */
int nnc_no_choice(const nnc_call *c, const char *words, const char *key);
void nnc_hex(char *text, const void *bytes, size_t n);  /* 2 n digits and a 0 */
int nnc_unhex(void *bytes, const char *text, size_t n); /* 0: done */

/* Products: linear, 1x1 and patch convolutions and their transposes. */
void nnc_gemm_size(nn_cuda *cuda, nn_xop *op, size_t *arena); /* arena: what prepare() needs behind `fixed` */
int nnc_gemm_prepare(nnc_call *c, const nn_xop *op);
int nnc_gemm_casts(const nnc_call *c, const nn_xop *op, int backward); /* does the call read its bfloat16 weights? */
int nnc_gemm_repeats(const nn_xop *op);                                /* has its bias in off_bias */
int nnc_gemm_narrows(const nn_low *low, const nn_xop *op);             /* and as bfloat16, in off_narrow */
const float *nnc_gemm_bias(const nnc_call *c, const nn_xop *op);
int nnc_gemm_forward(nnc_call *c, const nn_xop *op);
int nnc_gemm_backward(nnc_call *c, const nn_xop *op);
int nnc_gemm_apply(nnc_call *c, const nn_xop *op);
void nnc_gemm_free(nn_product *p);
/* All other convolutions. */
void nnc_conv_size(nn_cuda *cuda, nn_xop *op, size_t *arena);
int nnc_conv_prepare(nnc_call *c, const nn_xop *op);
int nnc_conv_forward(nnc_call *c, const nn_xop *op);
int nnc_conv_backward(nnc_call *c, const nn_xop *op);
void nnc_conv_free(nn_dconv *p);
int nnc_ways_pack(const nnc_call *c); /* makes the constants of all ways, once off_cast is there */
/* Ops that one way computes at once, ways/way.h: found before values have their places, since what the way leaves may
 * be there earlier, or nowhere. */
int nnc_groups_find(sp_ctx *ctx, nn_cuda *cuda);    /* a status */
void nnc_groups_size(nn_cuda *cuda, size_t *arena); /* once ops have their sizes */
int nnc_groups_prepare(nnc_call *c);                /* once ops are prepared: a status */
void nnc_groups_bind(const nnc_call *c);
/* Instead of a forward, a backward of op: 1, where that is the choice; *status is one. */
int nnc_group_forward(nnc_call *c, const nn_xop *op, int *status);
int nnc_group_backward(nnc_call *c, const nn_xop *op, int *status);
void nnc_groups_free(nn_cuda *cuda);
/* Bytes of the sums of columns that any way leaves of the gradient of what op reads. */
size_t nnc_ways_columns(const nn_cuda *cuda, const nn_xop *op);
/* The convolutions that lowering gives to a kernel of few channels, as nn_target.narrow. */
int (*nnc_ways_lower(const nn_cuda *cuda))(int k, int64_t in, int64_t out);
/* norm.c: mean and 1/std in this call, and the memory of the kernels of both norms */
float *nnc_stats_of(const nnc_call *c, const nn_xop *op);
char *nnc_norm_work(const nnc_call *c, const nn_xop *op);

/* What CUDA does for a line of ops.list; NULL where there is nothing to do. */
typedef struct nnc_op {
  int (*forward)(nnc_call *c, const nn_xop *op);
  int (*backward)(nnc_call *c, const nn_xop *op);
  void (*size)(nn_cuda *cuda, nn_xop *op, size_t *arena); /* op->tmp; arena: what prepare() needs behind `fixed` */
  int (*prepare)(nnc_call *c, const nn_xop *op);
  int (*apply)(nnc_call *c, const nn_xop *op); /* products that may leave their gradients to the end of a step */
} nnc_op;

#define NN_EXEC(ID, row, is) extern const nnc_op nnc_row_##row;
#include "../ops/ops.list"
extern const nnc_op *const nnc_ops[NN_EXECS];

#endif
