/* SPDX-License-Identifier: MIT
 * op.c - the ops that are neither products nor cuDNN's: narrow convolutions, two layers as one, norms, pooling,
 * moving maps. */
#include "../../drop.h"
#include "cuda_net.h"

#include <cuda_runtime_api.h>

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

void nnc_op_size(nn_cuda *cuda, nn_xop *op) {
  nn_low *low = &cuda->low;
  for (int64_t n = 1; n <= low->batch; n++) { /* what a kernel needs may rise where the batch gets smaller */
    nnk_map x = nnc_map(&low->vals[op->in], n), y = nnc_map(&low->vals[op->out], n);
    if (op->x == NN_X_NARROW && low->training) op->tmp = larger(op->tmp, nnk_narrow_weight_work(op->d.k[0], &x, &y));
    if (op->x == NN_X_NORM) op->tmp = larger(op->tmp, nn_align(nn_stats_bytes(low, op)) + nnk_norm_work(&x));
    if (op->x == NN_X_GROUP) op->tmp = larger(op->tmp, nn_align(nn_stats_bytes(low, op)) + nnk_group_work(&x));
  }
}

/* ---- narrow convolutions ----------------------------------------------------------------------------------------- */
static int narrow_forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  return nnk_narrow_forward(c->stream, op->d.k[0], &y, &x, nnc_product_weight(c, op), nnc_product_bias(c, op),
                            op->d.relu, c->cuda->precision);
}

static int narrow_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  int err = 0, k = op->d.k[0];
  nnk_sum dw = nnc_grad_of(c, op->d.w), db = {0};
  nnc_into in;
  nnc_din(c, op->in, &in);
  if (op->d.bias) db = nnc_grad_of(c, op->d.w + 1);
  if (in.dx)
    err = nnk_narrow_data(c->stream, k, in.dx, &dy, nnc_product_weight(c, op), in.mask, in.add, c->cuda->precision);
  if (!err && dw.p) err = nnk_narrow_weight(c->stream, k, dw, db, &x, &dy, c->cuda->precision, c->w.tmp);
  else if (!err && db.p) err = nnk_bias_grad(c->stream, db, &dy, c->w.tmp);
  return err;
}

/* ---- a narrow convolution and the patch convolution of its map ---- */
/* Who else reads op's input: in a call 1, if such a result is wanted; before (at NULL), 1 if it cannot be left out in any
 * call. Without a backward what only gives the value out can, where nobody wants it. */
static int read_besides(const nn_low *low, const nn_xop *op, const nn_at *at) {
  for (int i = 0; i < low->n_ops; i++) {
    const nn_xop *other = &low->ops[i];
    const nn_val *out = &low->vals[other->out];
    int reads = 0;
    for (int j = 0; j <= other->d.n_more; j++) reads |= NN_IN(other, j) == op->in;
    if (other == op || !reads) continue;
    if (at ? at[other->out].wanted : low->training || out->out_port < 0 || out->uses) return 1;
  }
  return 0;
}

void nnc_stem_find(nn_cuda *cuda) {
  nn_low *low = &cuda->low;
  for (int i = 0; i < low->n_ops; i++) {
    const nn_xop *op = &low->ops[i], *first;
    nn_val *between = &low->vals[op->in], *out = &low->vals[op->out];
    nnk_map x, y = nnc_map(out, low->batch);
    if (op->x != NN_X_GEMM || op->d.kind != NN_OP_CONV || op->d.k[0] != 2 || between->producer < 0 ||
        between->out_port >= 0 || read_besides(low, op, NULL))
      continue;
    first = &low->ops[between->producer];
    x = nnc_map(&low->vals[first->in], low->batch);
    if (first->x != NN_X_NARROW || first->d.k[0] != 1 || !first->d.relu || !nnk_stem(&x, between->c, &y)) continue;
    cuda->cops[i].first = first;
    low->ops[i].together = low->ops[between->producer].together = 1;
    between->unstored = between->uses == 1;
  }
}

void nnc_stem_choose(const nnc_call *c) {
  const nn_low *low = c->w.low;
  for (int i = 0; i < low->n_ops; i++)
    if (c->cuda->cops[i].first) c->w.at[low->ops[i].in].wanted = read_besides(low, &low->ops[i], c->w.at) != 0;
}

void nnc_stem_size(nn_cuda *cuda, const nn_xop *op) {
  nn_low *low = &cuda->low;
  nn_cop *cop = &cuda->cops[op - low->ops];
  nnk_map x = nnc_map(&low->vals[cop->first->in], low->batch), y = nnc_map(&low->vals[op->out], low->batch);
  cop->off_patch = cuda->pieces_bytes;
  if (low->training) cuda->pieces_bytes += nn_align(nnk_stem_work(&x, &y));
}

int nnc_stem_prepare(nnc_call *c, const nn_xop *op) { return nnc_check(c, op, nnk_stem_prepare()); }

static nnk_layers layers_of(const nnc_call *c, const nn_xop *op) {
  const nn_xop *first = nnc_cop(c, op)->first;
  return (nnk_layers){nnc_product_weight(c, first), nnc_product_bias(c, first), nnc_product_weight(c, op),
                      nnc_product_bias(c, op), op->d.relu};
}

int nnc_stem_forward(nnc_call *c, const nn_xop *op) {
  nnk_layers layers = layers_of(c, op);
  nnk_map x = nnc_data(c, nnc_cop(c, op)->first->in), y = nnc_data(c, op->out);
  return nnc_check(c, op, nnk_stem_forward(c->stream, &y, &x, &layers));
}

int nnc_stem_backward(nnc_call *c, const nn_xop *op) {
  const nn_xop *first = nnc_cop(c, op)->first;
  const nn_op *of[2] = {&op->d, &first->d};
  nnk_map x = nnc_data(c, first->in), dy = nnc_grad(c, op->out);
  nnk_layers layers = layers_of(c, op);
  nnk_pieces sums[4] = {{.pieces = 0}};
  float *work = (float *)(c->w.more + nnc_cop(c, op)->off_patch);
  int there = c->pieces[nnc_index(c, op)] < 0, st; /* of op's bias: they came with the gradient */
  nnc_into in;
  nnc_din(c, first->in, &in);
  st = nnc_check(c, op, nnk_stem_backward(c->stream, in.dx, in.add, &dy, &x, &layers, work, sums));
  for (int i = 0; i < 4 && !st; i++) {
    const nn_op *d = of[i / 2];
    if (i % 2 && (!d->bias || (i == 1 && there))) continue;
    sums[i].dst = nnc_grad_of(c, d->w + i % 2);
    if (sums[i].dst.p) st = nnc_add_later(c, &sums[i]);
  }
  return st;
}

/* ---- norms: `saved`, or the front of tmp, has mean and 1/std; the kernels' own memory is behind it ---- */
static float *stats_of(const nnc_call *c, const nn_xop *op) {
  int keep = c->w.io->training && c->cuda->low.training;
  return (float *)(keep ? (char *)c->w.io->saved + op->off_stats : c->w.tmp);
}

static char *norm_work(const nnc_call *c, const nn_xop *op) {
  return c->w.tmp + nn_align(nn_stats_bytes(&c->cuda->low, op));
}

static int group_forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  return nnk_group_forward(c->stream, &y, &x, op->d.groups, op->d.eps, stats_of(c, op), nnc_weight(c, op->d.w),
                           nnc_weight(c, op->d.w + 1), op->d.relu, norm_work(c, op));
}

static int group_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out), none = nnc_map(&c->w.low->vals[op->in], c->w.n);
  const float *stats = (float *)((char *)c->w.io->saved + op->off_stats);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return nnk_group_backward(c->stream, in.dx ? in.dx : &none, &dy, &x, op->d.groups, stats, nnc_weight(c, op->d.w),
                            nnc_grad_of(c, op->d.w), nnc_grad_of(c, op->d.w + 1), in.mask, in.add, norm_work(c, op));
}

static int norm_forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out);
  int w = op->d.w, err;
  float *mean = nnc_weight(c, w + 2), *var = nnc_weight(c, w + 3);
  float *stats = stats_of(c, op);
  if (c->w.batch_stats)
    err = nnk_norm_stats(c->stream, stats, &x, op->d.eps, op->d.momentum, mean, var, nnc_weight(c, w + 4),
                         norm_work(c, op));
  else err = nnk_norm_running(c->stream, stats, x.c, mean, var, op->d.eps);
  return err ? err : nnk_norm_forward(c->stream, &y, &x, stats, nnc_weight(c, w), nnc_weight(c, w + 1), op->d.relu);
}

/* In place gamma is changed on the way: the gradient of x takes a copy. */
static int norm_backward(nnc_call *c, const nn_xop *op) {
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
  return err ? err
             : nnk_norm_backward(c->stream, in.dx ? in.dx : &none, &dy, &x, stats, gamma, dgamma, dbeta,
                                 c->w.batch_stats, in.mask, in.add, c->w.tmp + nn_align(bytes));
}

/* ---- pooling ---- */
static nnk_window window_of(const nn_xop *op) {
  const nn_op *d = &op->d;
  return (nnk_window){{d->k[0], d->k[1]}, {d->s[0], d->s[1]}, {d->p[0], d->p[1]}};
}

static int pool_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  int max = op->d.kind == NN_OP_MAX_POOL;
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnk_pool_backward(c->stream, max, in.dx, &dy, &x, window_of(op), in.mask, in.add) : 0;
}

static int upsample_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnk_upsample_backward(c->stream, op->d.mode, in.dx, &dy, in.mask, in.add) : 0;
}

/* ---- moving ---- */
/* The result of a copy, or its gradient, as a map of the source's extents: flattened, it is planar. */
static nnk_map copied(const nnc_call *c, const nn_xop *op, nnk_map out) {
  nnk_map m = nnc_data(c, op->in);
  m.p = out.p;
  m.elt = out.elt;
  m.layout = op->to;
  return m;
}

static int copy_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = copied(c, op, nnc_grad(c, op->out));
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnk_copy(c->stream, in.dx, &dy, in.add) : 0;
}

static int relu_backward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out), dy = nnc_grad(c, op->out);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnk_mask(c->stream, in.dx, &dy, &y, in.add) : 0;
}

static int act_of(const nn_xop *op) { return op->d.kind - NN_OP_SIGMOID; }

static int act_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnk_act_backward(c->stream, act_of(op), in.dx, &dy, &x, in.mask, in.add) : 0;
}

/* Of a value by itself the second use adds to the first. */
static int mul_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  int err = 0;
  for (int i = 0; i < 2 && !err; i++) {
    nnk_map other = nnc_data(c, NN_IN(op, 1 - i));
    nnc_into in;
    nnc_din(c, NN_IN(op, i), &in);
    if (in.dx && in.dx->h * in.dx->w < dy.h * dy.w) err = nnk_mul_sum(c->stream, in.dx, &dy, &other, in.mask, in.add);
    else if (in.dx) err = nnk_mul(c->stream, in.dx, &dy, &other, in.mask, in.add);
  }
  return err;
}

static nnk_drop drop_of(const nnc_call *c, const nn_op *d) {
  nnk_drop drop = {NULL, NULL, d->salt, drop_limit(d->drop), drop_scale(d->drop), d->maps};
  if (c->w.low->draws) drop.step = c->w.io->step, drop.ids = c->w.io->ids;
  return drop;
}

/* What was dropped is drawn again. */
static int drop_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  nnk_drop drop = drop_of(c, &op->d);
  nnc_into in;
  nnc_din(c, op->in, &in);
  return in.dx ? nnk_dropout(c->stream, &drop, in.dx, &dy, in.mask, in.add) : 0;
}

/* ADD and CONCAT; of a value that is read twice the second use adds to the first. */
static int joined_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  int64_t first = 0;
  int err = 0;
  for (int i = 0; i <= op->d.n_more && !err; i++) {
    nnc_into in;
    nnc_din(c, NN_IN(op, i), &in);
    if (in.dx && op->x == NN_X_ADD) err = nnk_mask(c->stream, in.dx, &dy, in.mask, in.add);
    else if (in.dx) err = nnk_split(c->stream, in.dx, &dy, first, in.mask, in.add);
    first += c->w.low->vals[NN_IN(op, i)].c;
  }
  return err;
}

static int joined_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out), x[NN_MAX_INS];
  int n = 1 + op->d.n_more, err = 0;
  for (int i = 0; i < n; i++) x[i] = nnc_data(c, NN_IN(op, i));
  if (op->x == NN_X_CONCAT) return nnk_concat(c->stream, &y, n, x);
  for (int i = 1; i < n && !err; i++) err = nnk_add(c->stream, &y, i > 1 ? &y : &x[0], &x[i], op->d.relu && i == n - 1);
  return err;
}

int nnc_op_forward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), y = nnc_data(c, op->out), to;
  nnk_drop drop;
  switch (op->x) {
    case NN_X_NARROW: return nnc_check(c, op, narrow_forward(c, op));
    case NN_X_NORM:
      if (c->w.batch_stats && c->w.n * x.h * x.w < 2)
        return nnc_fail(c, op, SP_E_UNSUPPORTED, "more than one value per channel is needed for the statistics");
      return nnc_check(c, op, norm_forward(c, op));
    case NN_X_GROUP: return nnc_check(c, op, group_forward(c, op));
    case NN_X_POOL:
      return nnc_check(c, op, nnk_pool_forward(c->stream, op->d.kind == NN_OP_MAX_POOL, &y, &x, window_of(op)));
    case NN_X_UPSAMPLE: return nnc_check(c, op, nnk_upsample_forward(c->stream, op->d.mode, &y, &x));
    case NN_X_RELU: return nnc_check(c, op, nnk_relu(c->stream, &y, &x));
    case NN_X_ACT: return nnc_check(c, op, nnk_act_forward(c->stream, act_of(op), &y, &x));
    case NN_X_MUL: to = nnc_data(c, op->more[0]); return nnc_check(c, op, nnk_mul(c->stream, &y, &x, &to, NULL, 0));
    case NN_X_DROP: drop = drop_of(c, &op->d); return nnc_check(c, op, nnk_dropout(c->stream, &drop, &y, &x, NULL, 0));
    case NN_X_ADD:
    case NN_X_CONCAT: return nnc_check(c, op, joined_forward(c, op));
    default: to = copied(c, op, y); return nnc_check(c, op, nnk_copy(c->stream, &to, &x, 0));
  }
}

int nnc_op_backward(nnc_call *c, const nn_xop *op) {
  switch (op->x) {
    case NN_X_NARROW: return nnc_check(c, op, narrow_backward(c, op));
    case NN_X_NORM: return nnc_check(c, op, norm_backward(c, op));
    case NN_X_GROUP: return nnc_check(c, op, group_backward(c, op));
    case NN_X_POOL: return nnc_check(c, op, pool_backward(c, op));
    case NN_X_UPSAMPLE: return nnc_check(c, op, upsample_backward(c, op));
    case NN_X_RELU: return nnc_check(c, op, relu_backward(c, op));
    case NN_X_ACT: return nnc_check(c, op, act_backward(c, op));
    case NN_X_MUL: return nnc_check(c, op, mul_backward(c, op));
    case NN_X_DROP: return nnc_check(c, op, drop_backward(c, op));
    case NN_X_COPY: return nnc_check(c, op, copy_backward(c, op));
    default: return nnc_check(c, op, joined_backward(c, op));
  }
}
