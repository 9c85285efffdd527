/* SPDX-License-Identifier: MIT
 * patch.c - the whole backward of a product of many rows and small weights, in one pass over dy and x: patch.cu, where
 * products may round to TF32. */
#include "gemm.h"

static int takes(const nnc_job *job, const nnc_device *device) {
  const nn_product *p = ((const nnc_whole *)job)->data.p;
  int tf32 = nnc_device_rounds(device, job->c->cuda->precision) == SP_PRECISION_TF32;
  return nnk_patch(p->m, p->n, p->k, p->elt, tf32, device->shared_bytes);
}

static int prepare(const nnc_job *job) {
  const nn_product *p = ((const nnc_whole *)job)->data.p;
  return nnk_patch_prepare(p->n, p->k);
}

static int run(const nnc_job *job) {
  const nnc_whole *b = (const nnc_whole *)job;
  const nn_product *p = b->data.p;
  int64_t pieces = 0, count = p->n * p->k, stride = count + b->dy.c + b->x.c;
  int err = nnk_patch_backward(job->c->stream, b->dx.p, b->data.add, b->relu, b->dy.p, b->x.p, b->data.master, b->dy.c,
                               b->x.c, p->m, p->n, p->k, b->work, &pieces, job->c->cuda->device.multiprocessors);
  b->sums[NNC_OF_WEIGHT] = (nnk_pieces){{NULL, NULL, 0}, b->work, count, stride, pieces};
  b->sums[NNC_OF_DY] = (nnk_pieces){{NULL, NULL, 0}, b->work + count, b->dy.c, stride, pieces};
  b->sums[NNC_OF_DX] = (nnk_pieces){{NULL, NULL, 0}, b->work + count + b->dy.c, b->x.c, stride, pieces};
  return err;
}

/* On a device that can, and where its sums are not left to the end of a step. */
static int may_run(const nn_cuda *cuda, const nn_xop *op) {
  const nn_low *low = &cuda->low;
  return op->x == NN_X_GEMM && low->training && !low->frozen && cuda->precision == SP_PRECISION_TF32 &&
         low->vals[op->in].elt == NN_F32 && !nn_has_factors(low, op);
}

static size_t pieces(const nn_cuda *cuda, const nn_xop *op, int64_t samples) {
  int64_t m, n, k;
  if (!may_run(cuda, op)) return 0;
  nn_extents(&cuda->low, op, samples, &m, &n, &k);
  return nnk_patch_work(m, n, k, cuda->device.multiprocessors);
}

static const char *const texts[] = {"patch", NULL};

const nnc_way nnc_way_patch = {.id = NNC_WAY_PATCH,
                               .jobs = NNC_WHOLE,
                               .does = NNC_ALL,
                               .texts = texts,
                               .takes = takes,
                               .prepare = prepare,
                               .run = run,
                               .pieces = pieces};
