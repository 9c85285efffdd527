/* SPDX-License-Identifier: MIT
 * wide.c - 1x1 convolutions of many channels in a frozen network, in bfloat16: wide.cu, on devices with warp groups. */
#include "gemm.h"

/* What the product is read from, as a map. */
static nnk_map rows_of(const nnc_gemm *a) {
  nnk_map x = a->y;
  x.c = a->p->k;
  x.elt = a->p->elt;
  x.p = (void *)(uintptr_t)a->b;
  return x;
}

static int takes(const nnc_job *job, const nnc_device *device) {
  static const int one[2] = {1, 1}, none[2] = {0, 0};
  const nnc_gemm *a = (const nnc_gemm *)job;
  nnk_map x = rows_of(a);
  return job->part == NNC_FORWARD && a->wide && device->has & NNC_HAS_WARP_GROUPS &&
         nnk_wide_shape(&a->y, &x, one, one, none);
}

static int run(const nnc_job *job) {
  const nnc_gemm *a = (const nnc_gemm *)job;
  nnk_map x = rows_of(a);
  return nnk_wide_forward(job->c->stream, &a->y, &x, 1, 1, a->wide, a->bias, a->plus.p ? &a->plus : NULL, a->p->relu,
                          job->c->cuda->device.multiprocessors);
}

/* In a frozen network it lets the next kernel of our own begin before it has ended; behind cuBLASLt's that one waits.
 * What that is worth, in milliseconds, does not show where one is measured (docs/measurements.md, frozen backbones). */
#define EARLY 0.0008

static double worth(const nnc_job *job, double ms) {
  (void)job;
  return ms > EARLY ? ms - EARLY : ms;
}

static const char *const texts[] = {"own", NULL};

const nnc_way nnc_way_wide = {.id = NNC_WAY_WIDE,
                              .jobs = NNC_PRODUCT,
                              .does = NNC_BIAS | NNC_RELU | NNC_SUM,
                              .keyed = "wide",
                              .texts = texts,
                              .takes = takes,
                              .worth = worth,
                              .run = run};
