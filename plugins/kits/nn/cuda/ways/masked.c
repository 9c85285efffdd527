/* SPDX-License-Identifier: MIT
 * masked.c - the gradient of a product's input with its mask and the sums of its columns: masked.cu, by tiles of two
 * heights, where products may round to TF32. */
#include "gemm.h"

static int takes(const nnc_job *job, const nnc_device *device) {
  const nnc_gemm *a = (const nnc_gemm *)job;
  const nn_product *p = a->p;
  int tf32 = nnc_device_rounds(device, job->c->cuda->precision) == SP_PRECISION_TF32;
  return p->masks && nnk_masked_takes(p->m, p->n, p->k, a->dx.c, p->elt, tf32, device->shared_bytes);
}

static int prepare(const nnc_job *job) {
  (void)job;
  return nnk_masked_prepare();
}

static size_t columns(const nn_cuda *cuda, const nn_xop *op) {
  const nn_low *low = &cuda->low;
  int64_t m, n, k;
  if (op->x != NN_X_GEMM || cuda->precision != SP_PRECISION_TF32 || low->vals[op->in].elt != NN_F32) return 0;
  nn_extents(low, op, low->batch, &m, &n, &k);
  return nnk_masked_work(m, n, k, low->vals[op->in].c);
}

static const char *const texts[] = {"masked 64", "masked 128", NULL};
static const int heights[] = {NNK_MASKED_LESS, NNK_MASKED_MORE};

static int run(const nnc_job *job) {
  const nnc_gemm *a = (const nnc_gemm *)job;
  const nn_product *p = a->p;
  nnk_masked of = {a->d, a->b, a->master, a->sign.p, p->m, p->n, p->k, a->dx.c, a->pieces};
  int64_t pieces;
  return nnk_masked_data(job->c->stream, heights[job->by->variant], &of, a->n_pieces ? a->n_pieces : &pieces);
}

const nnc_way nnc_way_masked = {.id = NNC_WAY_MASKED,
                                .jobs = NNC_PRODUCT,
                                .does = NNC_MASK | NNC_COLUMNS,
                                .texts = texts,
                                .takes = takes,
                                .prepare = prepare,
                                .run = run,
                                .columns = columns};
