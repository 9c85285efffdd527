/* SPDX-License-Identifier: MIT
 * group.c - the host's half of group.cu. */
#include "cuda_net.h"

/* What the kernels need may rise where the batch gets smaller. */
static void size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  (void)arena;
  for (int64_t n = 1; n <= cuda->low.batch; n++) {
    nnk_map x = nnc_map(&cuda->low.vals[op->in], n);
    size_t work = nn_align(nn_stats_bytes(&cuda->low, op)) + nnk_group_work(&x);
    if (work > op->tmp) op->tmp = work;
  }
}

static int forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  return nnc_check(c, op,
                   nnk_group_forward(c->stream, &y, &x, op->d.groups, op->d.eps, nnc_stats_of(c, op),
                                     nnc_weight(c, op->d.w), nnc_weight(c, op->d.w + 1), op->d.relu,
                                     nnc_norm_work(c, op)));
}

static int backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out), none = nnc_map(&c->w.low->vals[op->in], c->w.n);
  const float *stats = (float *)((char *)c->w.io->saved + op->off_stats);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return nnc_check(c, op,
                   nnk_group_backward(c->stream, in.dx ? in.dx : &none, &dy, &x, op->d.groups, stats,
                                      nnc_weight(c, op->d.w), nnc_grad_of(c, op->d.w), nnc_grad_of(c, op->d.w + 1),
                                      in.mask, in.add, nnc_norm_work(c, op)));
}

const nnc_op nnc_row_group = {.forward = forward, .backward = backward, .size = size};
