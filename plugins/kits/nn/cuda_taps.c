/* SPDX-License-Identifier: MIT
 * cuda_taps.c - the gradient of the weights of a convolution with dilation, place by place of the kernel.
 *
 * The pixel that a place of the kernel meets lies a fixed number of pixels behind, across rows and samples too, so that the
 * gradient there is one product of all pixels of dy with those of x so far behind, once dy is 0 where there is no such pixel.
 * cuDNN has no algorithm for some of these, and slow ones for others. */
#include "cuda_lt.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

int nnc_taps_fit(const nn_low *low, const nn_xop *op) {
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  const nn_op *d = &op->d;
  int alone = in->elt == NN_F32 ? 4 : 8; /* numbers of 16 bytes */
  if (d->kind != NN_OP_CONV || d->groups > 1 || (d->dil[0] == 1 && d->dil[1] == 1)) return 0;
  return d->s[0] == 1 && d->s[1] == 1 && in->h == out->h && in->w == out->w && in->c % alone == 0 &&
         out->c % alone == 0;
}

int nnc_taps_handle(nnc_call *c) {
  int st = c->lt ? SP_OK : c->cuda->ext->cublaslt(c->w.ctx, &c->lt);
  return st ? st : nnc_workspace(c);
}

/* A product over so many pixels: dw^T = x^T dy, a row of dw being a part of a row of all places'. */
typedef struct product {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t x, dy, dw;
} product;

static int describe(product *p, const nnc_taps *t, int64_t pixels) {
  cudaDataType_t type = t->x.elt == NNK_F32 ? CUDA_R_32F : CUDA_R_16BF;
  int tf32 = t->c->cuda->precision == SP_PRECISION_TF32;
  int32_t transposed = CUBLAS_OP_T, mode = t->g.scale ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
  uint64_t in = (uint64_t)t->x.c, out = (uint64_t)t->dy.c, m = (uint64_t)pixels;
  return cublasLtMatmulDescInit(&p->desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
         cublasLtMatmulDescSetAttribute(&p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed) ||
         cublasLtMatmulDescSetAttribute(&p->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode) ||
         cublasLtMatrixLayoutInit(&p->x, type, in, m, t->x.c) ||
         cublasLtMatrixLayoutInit(&p->dy, type, out, m, t->dy.c) ||
         cublasLtMatrixLayoutInit(&p->dw, CUDA_R_32F, in, out, t->x.c * t->op->d.k[0] * t->op->d.k[1]);
}

int nnc_taps_offers(nnc_taps *t, cublasLtMatmulHeuristicResult_t *list) {
  product p;
  if (describe(&p, t, t->dy.n * t->dy.h * t->dy.w)) return 0;
  return nnc_lt_offers(t->c, &p.desc, &p.x, &p.dy, &p.dw, list);
}

/* The place whose pixels lie `down` rows and `right` columns behind. */
static int run_tap(const nnc_taps *t, int tap, int64_t down, int64_t right) {
  const nnc_call *c = t->c;
  int64_t all = t->dy.n * t->dy.h * t->dy.w, behind = down * t->dy.w + right, apart = behind < 0 ? -behind : behind;
  size_t each = t->x.elt == NNK_F32 ? 4 : 2;
  float one = 1, keep = t->g.add ? 1 : 0;
  nnk_map dy = t->dy;
  const char *from;
  product p;
  int err;
  if (llabs(down) >= t->dy.h || llabs(right) >= t->dy.w) apart = behind = 0; /* dy is 0 everywhere */
  dy.p = t->work;
  if ((err = nnk_inside(c->stream, &dy, &t->dy, down, right)) || (err = describe(&p, t, all - apart))) return err;
  from = (const char *)t->x.p + (size_t)((behind > 0 ? behind : 0) * t->x.c) * each;
  return (int)cublasLtMatmul(c->lt, &p.desc, t->g.scale ? (const void *)t->g.scale : &one, from, &p.x,
                             (const char *)dy.p + (size_t)((behind < 0 ? -behind : 0) * dy.c) * each, &p.dy,
                             t->g.scale ? (const void *)nnc_one(c) : &keep, t->g.p + tap * t->x.c, &p.dw,
                             t->g.p + tap * t->x.c, &p.dw, &t->algo, c->workspace, c->cuda->ext->workspace_bytes,
                             c->stream);
}

int nnc_taps_run(const nnc_taps *t) {
  const nn_op *d = &t->op->d;
  int err = 0;
  for (int tap = 0; tap < d->k[0] * d->k[1] && !err; tap++)
    err = run_tap(t, tap, tap / d->k[1] * d->dil[0] - d->p[0], tap % d->k[1] * d->dil[1] - d->p[1]);
  return err;
}
