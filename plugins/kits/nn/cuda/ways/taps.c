/* SPDX-License-Identifier: MIT
 * taps.c - a convolution as products, place by place of its kernel, all in one call or one after the other.
 *
 * A place meets, at each pixel, one that lies as far away everywhere. So a forward is the product of all pixels with the
 * place's weights, summed over the places where the pixels meet; and the gradient of the place's weights is one product of all
 * pixels with those of the gradient where the place has met them. What is made for each place lies in memory, which pays where
 * the result has far fewer channels than what is read: cuDNN then has too few tiles for the device. It also has no algorithm
 * for the gradients of some weights that lie apart, and slow ones for others. */
#include "lt.h"

#include <cuda_runtime_api.h>

enum { MOST = 3 }; /* times as many numbers as what is read */

static int places(const nn_xop *op) { return op->d.k[0] * op->d.k[1]; }

size_t nnc_taps_work(const nn_low *low, const nn_xop *op, int64_t n, int forward) {
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  const nn_op *d = &op->d;
  int alone = in->elt == NN_F32 ? 4 : 8; /* numbers of 16 bytes */
  if (d->kind != NN_CONV || d->groups > 1 || places(op) == 1 || (forward && in->elt != NN_F32)) return 0;
  if (d->s[0] > 1 || d->s[1] > 1 || in->h != out->h || in->w != out->w || in->c % alone || out->c % alone) return 0;
  return places(op) * out->c > MOST * in->c ? 0 : (size_t)places(op) * nnc_map_bytes(out, n);
}

int nnc_taps_handle(nnc_call *c) {
  int st = c->lt ? SP_OK : c->cuda->ext->cublaslt(c->w.ctx, &c->lt);
  return st ? st : nnc_workspace(c);
}

typedef struct side {
  cublasLtMatrixLayoutOpaque_t layout;
  size_t apart; /* bytes from a place's matrix to the next one's */
} side;

/* Of each place: forward y^T = w x^T, gradient dw^T = x^T y; a row of w being a part of a row of all places'. */
typedef struct product {
  cublasLtMatmulDescOpaque_t desc;
  side a, b, d;
} product;

static int lay_out(side *s, const nnc_taps *t, int elt, int64_t rows, int64_t cols, int64_t ld, int64_t apart) {
  int32_t count = t->each ? 1 : places(t->op);
  cudaDataType_t type = elt == NNK_F32 ? CUDA_R_32F : CUDA_R_16BF;
  s->apart = (size_t)apart * (elt == NNK_F32 ? 4 : 2);
  return cublasLtMatrixLayoutInit(&s->layout, type, (uint64_t)rows, (uint64_t)cols, ld) ||
         cublasLtMatrixLayoutSetAttribute(&s->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count) ||
         cublasLtMatrixLayoutSetAttribute(&s->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart,
                                          sizeof apart);
}

static int describe(product *p, const nnc_taps *t) {
  int tf32 = t->c->cuda->precision == SP_PRECISION_TF32, elt = t->x.elt;
  int32_t turned = CUBLAS_OP_T, mode = t->g.scale ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
  int64_t in = t->x.c, out = t->y.c, m = t->x.n * t->x.h * t->x.w, row = places(t->op) * in;
  if (cublasLtMatmulDescInit(&p->desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F)) return 1;
  if (cublasLtMatmulDescSetAttribute(&p->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode)) return 1;
  if (cublasLtMatmulDescSetAttribute(&p->desc, t->w ? CUBLASLT_MATMUL_DESC_TRANSA : CUBLASLT_MATMUL_DESC_TRANSB,
                                     &turned, sizeof turned))
    return 1;
  if (t->w)
    return lay_out(&p->a, t, elt, in, out, row, in) || lay_out(&p->b, t, elt, in, m, in, 0) ||
           lay_out(&p->d, t, NNK_F32, out, m, out, m * out);
  return lay_out(&p->a, t, elt, in, m, in, 0) || lay_out(&p->b, t, elt, out, m, out, m * out) ||
         lay_out(&p->d, t, NNK_F32, in, out, row, in);
}

int nnc_taps_offers(nnc_taps *t, cublasLtMatmulHeuristicResult_t *list) {
  product p;
  return describe(&p, t) ? 0 : nnc_lt_offers(t->c, &p.desc, &p.a.layout, &p.b.layout, &p.d.layout, list);
}

static int multiply(const nnc_taps *t, const void *alpha, const char *a, const char *b, const void *beta, char *d) {
  product p;
  int err = describe(&p, t);
  for (int i = 0; i < (t->each ? places(t->op) : 1) && !err; i++, a += p.a.apart, b += p.b.apart, d += p.d.apart)
    err = (int)cublasLtMatmul(t->c->lt, &p.desc, alpha, a, &p.a.layout, b, &p.b.layout, beta, d, &p.d.layout, d,
                              &p.d.layout, &t->algo, t->c->workspace, t->c->cuda->ext->workspace_bytes, t->c->stream);
  return err;
}

int nnc_taps_run(const nnc_taps *t) {
  const nn_op *d = &t->op->d;
  nnk_taps taps = {{d->k[0], d->k[1]}, {d->dil[0], d->dil[1]}, {d->p[0], d->p[1]}};
  const float one = 1, keep = t->g.add ? 1 : 0, none = 0;
  int err;
  if (t->w) {
    err = multiply(t, &one, t->w, t->x.p, &none, t->work);
    return err ? err : nnk_shift_sum(t->c->stream, &t->y, t->work, &taps);
  }
  if ((err = nnk_shift(t->c->stream, t->work, &t->y, &taps))) return err;
  if (!t->g.scale) return multiply(t, &one, t->x.p, t->work, &keep, (char *)t->g.p);
  return multiply(t, t->g.scale, t->x.p, t->work, &t->c->cuda->numbers[t->g.add], (char *)t->g.p);
}
