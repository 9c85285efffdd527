/* SPDX-License-Identifier: MIT
 * norm.c - the host's half of norm.cu, and what both norms share: `saved`, or the front of tmp, has mean and 1/std;
 * the kernels' own memory is behind it. */
#include "cuda_net.h"

#include <cuda_runtime_api.h>

float *nnc_stats_of(const nnc_call *c, const nn_xop *op) {
  int keep = c->w.io->training && c->cuda->low.training;
  return (float *)(keep ? (char *)c->w.io->saved + op->off_stats : c->w.tmp);
}

char *nnc_norm_work(const nnc_call *c, const nn_xop *op) {
  return c->w.tmp + nn_align(nn_stats_bytes(&c->cuda->low, op));
}

/* What the kernels need may rise where the batch gets smaller. */
static void size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  (void)arena;
  for (int64_t n = 1; n <= cuda->low.batch; n++) {
    nnk_map x = nnc_map(&cuda->low.vals[op->in], n);
    size_t work = nn_align(nn_stats_bytes(&cuda->low, op)) + nnk_norm_work(&x);
    if (work > op->tmp) op->tmp = work;
  }
}

/* Whether a training step has the statistics of its batch. */
static int of_batch(const nnc_call *c, const nn_xop *op) { return c->w.batch_stats && !op->d.keeps; }

static int forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  float *mean = nnc_weight(c, op->d.w + 2), *var = nnc_weight(c, op->d.w + 3), *stats = nnc_stats_of(c, op);
  int w = op->d.w, err;
  if (of_batch(c, op) && c->w.n * x.h * x.w < 2)
    return nnc_fail(c, op, SP_E_UNSUPPORTED, "more than one value per channel is needed for the statistics");
  if (of_batch(c, op))
    err = nnk_norm_stats(c->stream, stats, &x, op->d.eps, op->d.momentum, mean, var, nnc_weight(c, w + 4),
                         nnc_norm_work(c, op));
  else err = nnk_norm_running(c->stream, stats, x.c, mean, var, op->d.eps);
  if (!err) err = nnk_norm_forward(c->stream, &y, &x, stats, nnc_weight(c, w), nnc_weight(c, w + 1), op->d.relu);
  return nnc_check(c, op, err);
}

/* In place gamma is changed on the way: the gradient of x takes a copy. */
static int backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out), none = nnc_map(&c->w.low->vals[op->in], c->w.n);
  const float *stats = (float *)((char *)c->w.io->saved + op->off_stats), *gamma = nnc_weight(c, op->d.w);
  nnk_sum dgamma = nnc_grad_of(c, op->d.w), dbeta = nnc_grad_of(c, op->d.w + 1);
  size_t bytes = (size_t)x.c * sizeof(float);
  int err = 0;
  nnc_into in;
  nnc_din(c, op->in, &in);
  if (in.dx && dgamma.scale) {
    err = cudaMemcpyAsync(c->w.tmp, gamma, bytes, cudaMemcpyDeviceToDevice, c->stream);
    gamma = (float *)c->w.tmp;
  }
  if (!err)
    err = nnk_norm_backward(c->stream, in.dx ? in.dx : &none, &dy, &x, stats, gamma, dgamma, dbeta, of_batch(c, op),
                            in.mask, in.add, c->w.tmp + nn_align(bytes));
  return nnc_check(c, op, err);
}

const nnc_op nnc_row_norm = {.forward = forward, .backward = backward, .size = size};
