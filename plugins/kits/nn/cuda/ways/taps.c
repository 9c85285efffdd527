/* SPDX-License-Identifier: MIT
 * taps.c - convolutions of stride 1, with a result as large as what they read, as products of cuBLASLt, place by place
 * of the kernel: all in one call, or one after the other. The forward in float32, and the gradient of the weights.
 *
 * A place meets, at each pixel, one that is as far away everywhere. So a forward is the product of all pixels with
 * the place's weights, summed over the places where the pixels meet; and the gradient of the place's weights is one
 * product of all pixels with those of the gradient where the place has met them. What is made for each place is in
 * memory, which pays where the result has far fewer channels than what is read: cuDNN then has too few tiles for the
 * device. It also has no algorithm for the gradients of some weights that lie apart, and slow ones for others. */
#include "conv.h"
#include "lt.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 3 }; /* times as many numbers as what is read */

static int places(const nn_xop *op) { return op->d.k[0] * op->d.k[1]; }

/* A map as the result for each place; 0: it is not done this way. */
static size_t map_bytes(const nn_low *low, const nn_xop *op, int64_t n, int forward) {
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  const nn_op *d = &op->d;
  int alone = in->elt == NN_F32 ? 4 : 8; /* numbers of 16 bytes */
  if (d->kind != NN_CONV || d->groups > 1 || places(op) == 1 || (forward && in->elt != NN_F32)) return 0;
  if (d->s[0] > 1 || d->s[1] > 1 || in->h != out->h || in->w != out->w || in->c % alone || out->c % alone) return 0;
  return places(op) * out->c > MOST * in->c ? 0 : (size_t)places(op) * nnc_map_bytes(out, n);
}

static size_t work(const nn_cuda *cuda, const nn_xop *op, int64_t n) {
  size_t forward;
  if (op->x != NN_X_CONV) return 0;
  forward = map_bytes(&cuda->low, op, n, 1);
  return cuda->low.training && !forward ? map_bytes(&cuda->low, op, n, 0) : forward;
}

static int takes(const nnc_job *job, const nnc_device *device) {
  const nnc_conv *a = (const nnc_conv *)job;
  (void)device;
  return a->part != NNC_BWD_DATA && map_bytes(&job->c->cuda->low, job->op, a->p->a.n, a->part == NNC_FWD) > 0;
}

/* ---- the product ------------------------------------------------------------------------------------------------- */
typedef struct side {
  cublasLtMatrixLayoutOpaque_t layout;
  size_t apart; /* bytes from a place's matrix to the next one's */
} side;

/* Of each place: forward y^T = w x^T, gradient dw^T = x^T y; a row of w being a part of a row of all places'. */
typedef struct product {
  cublasLtMatmulDescOpaque_t desc;
  side a, b, d;
} product;

static int each(const nnc_conv *a) { return a->job.by->way == &nnc_way_each; }

static int lay_out(side *s, const nnc_conv *a, int elt, int64_t rows, int64_t cols, int64_t ld, int64_t apart) {
  int32_t count = each(a) ? 1 : places(a->job.op);
  cudaDataType_t type = elt == NNK_F32 ? CUDA_R_32F : CUDA_R_16BF;
  s->apart = (size_t)apart * (elt == NNK_F32 ? 4 : 2);
  return cublasLtMatrixLayoutInit(&s->layout, type, (uint64_t)rows, (uint64_t)cols, ld) ||
         cublasLtMatrixLayoutSetAttribute(&s->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count) ||
         cublasLtMatrixLayoutSetAttribute(&s->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart,
                                          sizeof apart);
}

static int describe(product *p, const nnc_conv *a) {
  const nnk_map *x = &a->p->a, *y = &a->p->b;
  int forward = a->part == NNC_FWD, tf32 = a->job.c->cuda->precision == SP_PRECISION_TF32, elt = x->elt;
  int32_t turned = CUBLAS_OP_T, mode = a->sum.scale ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
  int64_t in = x->c, out = y->c, m = x->n * x->h * x->w, row = places(a->job.op) * in;
  if (cublasLtMatmulDescInit(&p->desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F)) return 1;
  if (cublasLtMatmulDescSetAttribute(&p->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode)) return 1;
  if (cublasLtMatmulDescSetAttribute(&p->desc, forward ? CUBLASLT_MATMUL_DESC_TRANSA : CUBLASLT_MATMUL_DESC_TRANSB,
                                     &turned, sizeof turned))
    return 1;
  if (forward)
    return lay_out(&p->a, a, elt, in, out, row, in) || lay_out(&p->b, a, elt, in, m, in, 0) ||
           lay_out(&p->d, a, NNK_F32, out, m, out, m * out);
  return lay_out(&p->a, a, elt, in, m, in, 0) || lay_out(&p->b, a, elt, out, m, out, m * out) ||
         lay_out(&p->d, a, NNK_F32, in, out, row, in);
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */
/* "places DIGITS", "each DIGITS": by that algorithm. */
static const char *word_of(const nnc_job *job) { return job->by->way == &nnc_way_each ? "each " : "places "; }

static int take(nnc_job *job, const char *text) {
  const char *word = word_of(job);
  if (strncmp(text, word, strlen(word)) != 0) return 0;
  return !nnc_unhex(job->by->algo, text + strlen(word), sizeof job->by->algo);
}

static void offer(nnc_job *job, nnc_trial *trial) {
  cublasLtMatmulHeuristicResult_t list[NNC_OFFERS];
  char text[SP_CUDA_VALUE_MAX];
  product p;
  int n = describe(&p, (const nnc_conv *)job)
              ? 0
              : nnc_lt_offers(job->c, &p.desc, &p.a.layout, &p.b.layout, &p.d.layout, list);
  for (int i = 0; i < n; i++) {
    if (list[i].state != CUBLAS_STATUS_SUCCESS || list[i].workspaceSize > job->c->cuda->ext->workspace_bytes) continue;
    memcpy(job->by->algo, &list[i].algo, sizeof job->by->algo);
    snprintf(text, sizeof text, "%s", word_of(job));
    nnc_hex(text + strlen(text), job->by->algo, sizeof job->by->algo);
    nnc_try(trial, text);
  }
}

/* ---- running: what goes wrong is a cublasStatus_t, or a cudaError_t below 0 -------------------------------------- */
static const char *words(int err) {
  return err < 0 ? cudaGetErrorString((cudaError_t)-err) : cublasLtGetStatusString((cublasStatus_t)err);
}

static int multiply(const nnc_conv *t, const void *alpha, const char *a, const char *b, const void *beta, char *d) {
  const nnc_call *c = t->job.c;
  product p;
  int err = describe(&p, t) ? CUBLAS_STATUS_INTERNAL_ERROR : 0;
  for (int i = 0; i < (each(t) ? places(t->job.op) : 1) && !err; i++, a += p.a.apart, b += p.b.apart, d += p.d.apart)
    err = (int)cublasLtMatmul(c->lt, &p.desc, alpha, a, &p.a.layout, b, &p.b.layout, beta, d, &p.d.layout, d,
                              &p.d.layout, (const cublasLtMatmulAlgo_t *)t->job.by->algo, c->workspace,
                              c->cuda->ext->workspace_bytes, c->stream);
  return err;
}

static int run(const nnc_job *job) {
  const nnc_conv *a = (const nnc_conv *)job;
  const nn_op *d = &job->op->d;
  nnk_taps taps = {{d->k[0], d->k[1]}, {d->dil[0], d->dil[1]}, {d->p[0], d->p[1]}};
  nnk_map y = nnc_placed(a->p->b, a->part == NNC_FWD ? a->to : a->w);
  const float one = 1, keep = a->sum.add ? 1 : 0, none = 0;
  int err;
  if (a->part == NNC_FWD) {
    err = multiply(a, &one, a->w, a->from, &none, a->work);
    return err ? err : -nnk_shift_sum(job->c->stream, &y, a->work, &taps);
  }
  if ((err = -nnk_shift(job->c->stream, a->work, &y, &taps))) return err;
  if (!a->sum.scale) return multiply(a, &one, a->from, a->work, &keep, (char *)a->sum.p);
  return multiply(a, a->sum.scale, a->from, a->work, &job->c->cuda->numbers[a->sum.add], (char *)a->sum.p);
}

const nnc_way nnc_way_taps = {.id = NNC_WAY_TAPS,
                              .jobs = NNC_CONVOLUTION,
                              .takes = takes,
                              .take = take,
                              .offer = offer,
                              .run = run,
                              .words = words,
                              .work = work};
const nnc_way nnc_way_each = {.id = NNC_WAY_EACH,
                              .jobs = NNC_CONVOLUTION,
                              .takes = takes,
                              .take = take,
                              .offer = offer,
                              .run = run,
                              .words = words};
