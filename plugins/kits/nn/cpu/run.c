/* SPDX-License-Identifier: MIT
 * run.c - what the CPU does when a planned network is walked. */
#include "cpu_net.h"

#include <string.h>

int nn_fail(const nn_call *c, const nn_xop *op, const char *words) {
  return nn_walk_fail(&c->w, op, SP_E_UNSUPPORTED, words);
}

nn_grad nn_grad_of(const nn_call *c, int w) {
  int add;
  float *p = nn_dweight(&c->w, w, &add);
  return (nn_grad){p, p && c->w.io->dw_scale ? *c->w.io->dw_scale : 1, (float)add};
}

float *nn_din(const nn_call *c, int v, int *acc, const float **mask) {
  int masked, wanted = nn_write_grad(&c->w, v, acc, &masked);
  *mask = masked ? nn_data(c, v) : NULL;
  return wanted ? c->w.at[v].grad : NULL;
}

const nn_cpu_op *const nn_cpu_ops[NN_EXECS] = {
#define NN_EXEC(ID, row, is) [NN_X_##ID] = &nn_cpu_##row,
#define NN_EXEC_CUDA(ID, row, is) [NN_X_##ID] = NULL,
#include "../ops/ops.list"
};

static int forward_op(nn_walk *w, const nn_xop *op) { return nn_cpu_ops[op->x]->forward((const nn_call *)w, op); }
static int backward_op(nn_walk *w, const nn_xop *op) { return nn_cpu_ops[op->x]->backward((const nn_call *)w, op); }
static int apply_op(nn_walk *w, const nn_xop *op) { return nn_cpu_ops[op->x]->apply((const nn_call *)w, op); }

typedef struct seed {
  float *d;
  const float *g, *y;
  int64_t n;
} seed;

static int seed_chunk(void *arg, int64_t i, int worker) {
  seed *s = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(s->n, 64, NN_CHUNKS, i, &b, &e);
  if (!s->y) memcpy(s->d + b, s->g + b, (size_t)(e - b) * sizeof(float));
  else nn_mask_to(s->d + b, s->g + b, s->y + b, e - b, 0);
  return SP_OK;
}

static int mask_chunk(void *arg, int64_t i, int worker) {
  seed *s = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(s->n, 64, NN_CHUNKS, i, &b, &e);
  nn_mask(s->d + b, s->y + b, e - b);
  return SP_OK;
}

static int arrive(nn_walk *w, const nn_xop *op, const void *dout, int relu) {
  const nn_call *c = (const nn_call *)w;
  const nn_val *v = nn_val_of(c, op->out);
  const nn_at *at = &w->at[op->out];
  seed s = {at->grad, dout, relu ? at->data : NULL, w->n * v->px * v->c};
  if (dout && !at->gset) return nn_run(&c->par, NN_CHUNKS, seed_chunk, &s);
  if (dout) nn_axpy(s.d, dout, 1, 1, s.n);
  return relu ? nn_run(&c->par, NN_CHUNKS, mask_chunk, &s) : SP_OK;
}

static int zero(nn_walk *w, void *p, size_t bytes) {
  (void)w;
  memset(p, 0, bytes);
  return SP_OK;
}

static int copy(nn_walk *w, void *to, const void *from, size_t bytes) {
  (void)w;
  memcpy(to, from, bytes);
  return SP_OK;
}

static const nn_device device = {
    .forward = forward_op, .backward = backward_op, .arrive = arrive, .zero = zero, .copy = copy, .apply = apply_op};

/* ---- products of a frozen network -------------------------------------------------------------------------------- */
static float *constant(const nn_call *c, size_t off) { return (float *)((char *)c->w.io->consts + off); }

const float *nn_product_weight(const nn_call *c, const nn_xop *op) {
  return op->d.norm ? constant(c, op->off_w) : nn_weight(c, op->d.w);
}

const float *nn_product_bias(const nn_call *c, const nn_xop *op) {
  if (op->d.norm) return constant(c, op->off_b);
  return op->d.bias ? nn_weight(c, op->d.w + 1) : NULL;
}

const float *nn_product_plus(const nn_call *c, const nn_xop *op) {
  return op->d.n_more ? nn_data(c, op->more[0]) : NULL;
}

typedef struct passed {
  float *d;
  const float *g, *mask;
  int64_t n;
  int acc;
} passed;

static int pass_chunk(void *arg, int64_t i, int worker) {
  const passed *p = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(p->n, 64, NN_CHUNKS, i, &b, &e);
  nn_give(p->d + b, p->g + b, p->mask ? p->mask + b : NULL, e - b, p->acc);
  return SP_OK;
}

int nn_plus_backward(const nn_call *c, const nn_xop *op) {
  const nn_val *out = nn_val_of(c, op->out);
  passed p = {.g = nn_dout(c, op->out), .n = c->w.n * out->px * out->c};
  if (!op->d.n_more || !(p.d = nn_din(c, op->more[0], &p.acc, &p.mask))) return SP_OK;
  return nn_run(&c->par, NN_CHUNKS, pass_chunk, &p);
}

void nn_fold_constants(const nn_cpu *cpu, const nn_xop *op, const sp_io *io, float *weights) {
  const sp_tensor *norm = &io->weights[op->d.norm - 1];
  const float *w = io->weights[op->d.w].data, *bias = op->d.bias ? io->weights[op->d.w + 1].data : NULL;
  const float *gamma = norm[0].data, *beta = norm[1].data, *mean = norm[2].data, *var = norm[3].data;
  float *b = (float *)((char *)io->consts + op->off_b);
  nn_channels ch = nn_channels_of(cpu, op);
  int64_t n = (int64_t)(nn_weight_bytes(cpu, op->d.w) / sizeof(float));
  for (int64_t i = 0; i < n; i++) {
    int64_t c = nn_channel(ch, i);
    weights[i] = (float)(w[i] * nn_fold_scale(gamma[c], var[c], op->d.eps));
  }
  for (int64_t c = 0; c < cpu->vals[op->out].c; c++)
    b[c] = nn_fold_shift(nn_fold_scale(gamma[c], var[c], op->d.eps), bias ? bias[c] : 0, mean[c], beta[c]);
}

static int make_constants(sp_ctx *ctx, const nn_cpu *cpu, const sp_io *io) {
  int st = SP_OK;
  for (int i = 0; i < cpu->n_ops && !st; i++) {
    const nn_xop *op = &cpu->ops[i];
    if (nn_cpu_ops[op->x]->constants) st = nn_cpu_ops[op->x]->constants(ctx, cpu, op, io);
  }
  return st;
}

int nn_cpu_prepare(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io) {
  static float a[64 * 64], b[64 * 64], c[64 * 64]; /* oneDNN compiles its product when it is first asked for one */
  int st = nn_room(ctx);
  if (st) return st;
  st = nn_gemm(0, 1, 64, 64, 64, 1, a, 64, b, 64, 0, c, 64);
  st = st ? st : nn_gemm(0, 0, 64, 64, 64, 1, a, 64, b, 64, 1, c, 64);
  st = st ? st : nn_gemm(1, 0, 64, 64, 64, 1, a, 64, b, 64, 1, c, 64);
  if (st) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "oneDNN refused a matrix product");
  for (int i = 0; i < cpu->n_ops && !st; i++)
    if (nn_cpu_ops[cpu->ops[i].x]->prepare) st = nn_cpu_ops[cpu->ops[i].x]->prepare(ctx, cpu, &cpu->ops[i]);
  return st || !cpu->frozen ? st : make_constants(ctx, cpu, io);
}

int nn_cpu_forward(sp_ctx *ctx, const nn_cpu *cpu, const sp_io *io) {
  nn_at at[cpu->n_vals];
  nn_call c = {{.ctx = ctx, .io = io, .low = cpu, .at = at, .values = io->scratch}, nn_par_of(ctx)};
  return nn_forward(&c.w, &device);
}

int nn_cpu_backward(sp_ctx *ctx, const nn_cpu *cpu, const sp_io *io) {
  nn_at at[cpu->n_vals];
  nn_call c = {{.ctx = ctx, .io = io, .low = cpu, .at = at, .values = io->scratch}, nn_par_of(ctx)};
  return nn_backward(&c.w, &device);
}

int nn_cpu_apply(sp_ctx *ctx, const nn_cpu *cpu, const sp_io *io) {
  nn_call c = {{.ctx = ctx, .io = io, .low = cpu, .values = io->scratch}, nn_par_of(ctx)};
  return nn_apply(&c.w, &device);
}
