/* SPDX-License-Identifier: MIT
 * first.c - the first convolution of a frozen network, of images, in bfloat16: first.cu, on devices that multiply it.
 * */
#include "conv.h"

static int takes(const nnc_job *job, const nnc_device *device) {
  return job->part == NNC_FORWARD && device->has & NNC_HAS_BF16 && nnc_cop(job->c, job->op)->at[NNC_WAY_FIRST] &&
         !job->op->d.n_more;
}

static int run(const nnc_job *job) {
  const nnc_conv *a = (const nnc_conv *)job;
  const nnc_call *c = job->c;
  const nn_op *d = &job->op->d;
  nnk_map x = nnc_placed(a->p->a, a->from);
  return nnk_first_forward(c->stream, &a->y, &x, d->k[0], c->fixed + nnc_cop(c, job->op)->at[NNC_WAY_FIRST],
                           nnc_product_bias(c, job->op), d->relu, c->cuda->device.multiprocessors);
}

static size_t constants(const nn_cuda *cuda, const nn_xop *op) {
  const nn_low *low = &cuda->low;
  const nn_op *d = &op->d;
  nnk_map x = nnc_map(&low->vals[op->in], low->batch), y = nnc_map(&low->vals[op->out], low->batch);
  if (!low->frozen || d->kind != NN_CONV || d->groups > 1 || d->dil[0] > 1 || d->dil[1] > 1) return 0;
  return cuda->device.has & NNC_HAS_BF16 && nnk_first_shape(&y, &x, d->k, d->s, d->p) ? nnk_first_bytes(d->k[0], y.c)
                                                                                      : 0;
}

static int pack(const nnc_call *c, const nn_xop *op, void *to) {
  return nnk_first_pack(c->stream, to, c->fixed + nnc_cop(c, op)->off_cast, op->d.k[0], c->cuda->low.vals[op->out].c);
}

static const char *const texts[] = {"own", NULL};

const nnc_way nnc_way_first = {.id = NNC_WAY_FIRST,
                               .jobs = NNC_CONVOLUTION,
                               .does = NNC_BIAS | NNC_RELU,
                               .texts = texts,
                               .takes = takes,
                               .run = run,
                               .constants = constants,
                               .pack = pack};
