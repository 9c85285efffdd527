/* SPDX-License-Identifier: MIT
 * outer.c - the gradient of large weights over few rows, with the sums of dy's columns: outer.cu, where products may
 * round to TF32. */
#include "gemm.h"

static int takes(const nnc_job *job, const nnc_device *device) {
  const nn_product *p = ((const nnc_gemm *)job)->p;
  int tf32 = nnc_device_rounds(device, job->c->cuda->precision) == SP_PRECISION_TF32;
  return p->part >= NNC_WEIGHT && nnk_outer_takes(p->m, p->n, p->k, p->elt, tf32);
}

static int run(const nnc_job *job) { return nnc_outer_run((const nnc_gemm *)job, 1); }

int nnc_outer_run(const nnc_gemm *a, int product) {
  const nn_product *p = a->p;
  nnk_outer of = {.dy = a->b, .x = a->a, .m = p->m, .n = p->n, .k = p->k, .db = a->db, .cols = a->dy.c};
  if (product) of.dw = (nnk_sum){a->d, a->scale, a->add};
  return nnk_outer_weight(a->job.c->stream, &of);
}

/* A product over the rows of factors runs beside calls of the communicator, if there are several ranks, which cannot
 * begin before cuBLASLt's kernels end: these fill the multiprocessors for as long as they take, so that a step takes
 * longer with one that is faster alone. It counts with one rank too: the choice does not depend on how many there
 * are, since bits depend on it. */
#define AHEAD 0.85

static double worth(const nnc_job *job, double ms) { return ((const nnc_gemm *)job)->p->rows ? ms * AHEAD : ms; }

static const char *const texts[] = {"outer", NULL};

const nnc_way nnc_way_outer = {.id = NNC_WAY_OUTER,
                               .jobs = NNC_PRODUCT,
                               .does = NNC_COLUMNS,
                               .texts = texts,
                               .takes = takes,
                               .worth = worth,
                               .run = run};
