/* SPDX-License-Identifier: MIT
 * wide.c - 3x3 and 1x1 convolutions of many channels in a frozen network, in bfloat16, as jobs of convolutions and of
 * products: wide.cu, on devices with warp groups. */
#include "conv.h"
#include "gemm.h"

/* What a product is read from, as a map. */
static nnk_map rows_of(const nnc_gemm *a) {
  nnk_map x = a->y;
  x.c = a->p->k;
  x.elt = a->p->elt;
  x.p = (void *)(uintptr_t)a->b;
  return x;
}

static int takes(const nnc_job *job, const nnc_device *device) {
  static const int one[2] = {1, 1}, none[2] = {0, 0};
  const nn_op *d = &job->op->d;
  nnk_map x, y;
  if (job->part != NNC_FORWARD || !(device->has & NNC_HAS_WARP_GROUPS) || !nnc_cop(job->c, job->op)->at[NNC_WAY_WIDE])
    return 0;
  if (job->of == NNC_CONVOLUTION) {
    x = ((const nnc_conv *)job)->p->a;
    y = ((const nnc_conv *)job)->y;
    return nnk_wide_shape(&y, &x, d->k, d->s, d->p);
  }
  x = rows_of((const nnc_gemm *)job);
  y = ((const nnc_gemm *)job)->y;
  return nnk_wide_shape(&y, &x, one, one, none);
}

static int prepare(const nnc_job *job) {
  (void)job;
  return nnk_wide_prepare();
}

static int run(const nnc_job *job) {
  const nnc_call *c = job->c;
  const nn_op *d = &job->op->d;
  const void *w = c->fixed + nnc_cop(c, job->op)->at[NNC_WAY_WIDE];
  int conv = job->of == NNC_CONVOLUTION, k = conv ? d->k[0] : 1, stride = conv ? d->s[0] : 1;
  nnk_map x =
      conv ? nnc_placed(((const nnc_conv *)job)->p->a, ((const nnc_conv *)job)->from) : rows_of((const nnc_gemm *)job);
  nnk_map y = conv ? ((const nnc_conv *)job)->y : ((const nnc_gemm *)job)->y;
  nnk_map plus = conv ? ((const nnc_conv *)job)->plus : ((const nnc_gemm *)job)->plus;
  return nnk_wide_forward(c->stream, &y, &x, k, stride, w, nnc_product_bias(c, job->op), plus.p ? &plus : NULL, d->relu,
                          c->cuda->device.multiprocessors);
}

/* In a frozen network it lets the next kernel of our own begin before it has ended; behind cuBLASLt's that one waits.
 * What that is worth, in milliseconds, does not show where one is measured (docs/measurements.md, frozen backbones). */
#define EARLY 0.0008

static double worth(const nnc_job *job, double ms) { return job->of == NNC_PRODUCT && ms > EARLY ? ms - EARLY : ms; }

static size_t constants(const nn_cuda *cuda, const nn_xop *op) {
  const nn_low *low = &cuda->low;
  const nn_op *d = &op->d;
  nnk_map x = nnc_map(&low->vals[op->in], low->batch), y = nnc_map(&low->vals[op->out], low->batch);
  if (!low->frozen || d->kind != NN_CONV || d->groups > 1 || d->dil[0] > 1 || d->dil[1] > 1) return 0;
  return cuda->device.has & NNC_HAS_WARP_GROUPS && nnk_wide_shape(&y, &x, d->k, d->s, d->p)
             ? nn_weight_bytes(low, d->w) / 2
             : 0;
}

static int pack(const nnc_call *c, const nn_xop *op, void *to) {
  const nn_val *in = &c->cuda->low.vals[op->in], *out = &c->cuda->low.vals[op->out];
  return nnk_wide_pack(c->stream, to, c->fixed + nnc_cop(c, op)->off_cast, out->c, op->d.k[0], in->c, 0);
}

static const char *const texts[] = {"own", NULL};

const nnc_way nnc_way_wide = {.id = NNC_WAY_WIDE,
                              .jobs = NNC_PRODUCT | NNC_CONVOLUTION,
                              .does = NNC_BIAS | NNC_RELU | NNC_SUM,
                              .keyed = "wide",
                              .texts = texts,
                              .takes = takes,
                              .prepare = prepare,
                              .worth = worth,
                              .run = run,
                              .constants = constants,
                              .pack = pack};
