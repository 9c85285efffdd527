/* SPDX-License-Identifier: MIT
 * skinny.c - products of few rows, bound by reading the weights: skinny.cu, on any device. */
#include "gemm.h"

static int takes(const nnc_job *job, const nnc_device *device) {
  (void)device;
  return ((const nnc_gemm *)job)->p->m <= NNK_SKINNY;
}

static int run(const nnc_job *job) {
  const nnc_gemm *a = (const nnc_gemm *)job;
  const nn_product *p = a->p;
  void *stream = job->c->stream, *work = job->c->w.tmp;
  int err;
  if (p->part == NNC_DATA)
    return nnk_skinny_data(stream, p->elt, a->d, a->b, NNK_F32, a->master, a->sign.p, a->add, p->m, p->n, p->k, work);
  if (p->part != NNC_FORWARD)
    return nnk_skinny_weight(stream, p->elt, (nnk_sum){a->d, a->scale, a->add}, a->b, a->a, p->m, p->n, p->k);
  err = nnk_skinny_forward(stream, p->elt, a->d, a->b, NNK_F32, a->master, a->bias, p->relu && !a->plus.p, p->m, p->n,
                           p->k, work);
  return err || !a->plus.p ? err : nnk_add(stream, &a->y, &a->y, &a->plus, p->relu);
}

static size_t work(const nn_cuda *cuda, const nn_xop *op, int64_t samples) {
  int64_t m, n, k;
  if (op->x != NN_X_GEMM) return 0;
  nn_extents(&cuda->low, op, samples, &m, &n, &k);
  return m <= NNK_SKINNY ? nnk_skinny_work(m, n, k) : 0;
}

static const char *const texts[] = {"skinny", NULL};

const nnc_way nnc_way_skinny = {.id = NNC_WAY_SKINNY,
                                .jobs = NNC_PRODUCT,
                                .does = NNC_BIAS | NNC_RELU | NNC_SUM | NNC_MASK,
                                .float_weights = 1,
                                .texts = texts,
                                .takes = takes,
                                .run = run,
                                .work = work};
