/* SPDX-License-Identifier: MIT
 * dnnl_conv.h - everything that is asked of oneDNN: the convolution of one sample, and matrix products.
 *
 * One thread runs one call; samples and blocks are spread over threads by the caller, so oneDNN starts none and the
 * bits do not depend on the size of the team. Maps are channels-last. */
#ifndef NN_DNNL_CONV_H
#define NN_DNNL_CONV_H

#include <stddef.h>
#include <stdint.h>

#include <spcore/plugin.h>

#include "../ops/kinds.h"

typedef struct nn_conv nn_conv;

/* Whether oneDNN has memory for the machine code that it writes: where its own allocation fails it writes to address 0,
 * which nobody can catch, so whoever lets it compile asks before. */
int nn_room(sp_ctx *ctx);

/* Of the convolution src[c][h][w] -> dst[o][oh][ow], where d is the dilation, 1 for none. A transposed convolution is
 * the same with forward and backward data exchanged. */
typedef struct nn_conv_shape {
  int64_t c, h, w, o, oh, ow;
  int k[2], s[2], p[2], d[2], groups;
  int order; /* of the weights in memory: row-major; without groups also o,kh,kw,c and kh,kw,c,o */
  /* What FWD does to its result, which then is the only part: an activation that folds; before it a bias is
   * added. ReLU is not among them: oneDNN's makes 0 of NaN, and is no faster than a pass over a sample in cache. */
  enum nn_act act;
  int bias;
} nn_conv_shape;

enum nn_conv_part { NN_CONV_FWD = 0, NN_CONV_DATA = 1, NN_CONV_WEIGHTS = 2 };

/* All return NULL, or words that say what failed. */
const char *nn_conv_new(nn_conv **conv, const nn_conv_shape *shape);
/* Compiles a part; does nothing when that was done before. */
const char *nn_conv_prepare(nn_conv *conv, int part);
void nn_conv_free(nn_conv *conv);

/* Of the weights (WEIGHTS: of their gradient) as oneDNN wants them. */
size_t nn_conv_packed_bytes(const nn_conv *conv, int part);
size_t nn_conv_scratch_bytes(const nn_conv *conv, int part); /* of one call */
/* From here on the convolution is only read, so calls may overlap.
 * Weights in the shape's order to the packed form of FWD or DATA. */
const char *nn_conv_pack(const nn_conv *conv, int part, const float *weights, void *packed);
/* The packed gradient back to that order. */
const char *nn_conv_unpack(const nn_conv *conv, const void *packed, float *weights);
/* FWD: dst = src * packed. DATA: src = dst * packed. WEIGHTS: packed = src, dst. bias: of the shape's act,
 * else NULL. */
const char *nn_conv_run(const nn_conv *conv, int part, void *src, void *packed, void *dst, void *scratch,
                        const float *bias);

/* c[m][n] = alpha op(a) op(b) + beta c, row-major; op transposes where ta, tb. Not 0: refused. */
int nn_gemm(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
            int64_t ldb, float beta, float *c, int64_t ldc);

#endif
