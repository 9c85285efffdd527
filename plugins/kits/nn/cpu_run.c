/* SPDX-License-Identifier: MIT
 * cpu_run.c - what the CPU does when a planned network is walked. */
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

static int forward_op(nn_walk *w, const nn_xop *op) {
  const nn_call *c = (const nn_call *)w;
  switch (op->x) {
    case NN_X_GEMM: return nn_gemm_forward(c, op);
    case NN_X_CONV: return nn_convs_forward(c, op);
    case NN_X_NORM: return nn_norm_forward(c, op);
    case NN_X_POOL: return nn_pool_forward(c, op);
    case NN_X_UPSAMPLE: return nn_upsample_forward(c, op);
    case NN_X_ACT: return nn_act_forward(c, op);
    case NN_X_MUL: return nn_mul_forward(c, op);
    case NN_X_DROP: return nn_drop_forward(c, op);
    default: return nn_move_forward(c, op);
  }
}

static int backward_op(nn_walk *w, const nn_xop *op) {
  const nn_call *c = (const nn_call *)w;
  switch (op->x) {
    case NN_X_GEMM: return nn_gemm_backward(c, op);
    case NN_X_CONV: return nn_convs_backward(c, op);
    case NN_X_NORM: return nn_norm_backward(c, op);
    case NN_X_POOL: return nn_pool_backward(c, op);
    case NN_X_UPSAMPLE: return nn_upsample_backward(c, op);
    case NN_X_ACT: return nn_act_backward(c, op);
    case NN_X_MUL: return nn_mul_backward(c, op);
    case NN_X_DROP: return nn_drop_backward(c, op);
    default: return nn_move_backward(c, op);
  }
}

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

static int apply_op(nn_walk *w, const nn_xop *op) { return nn_gemm_apply((const nn_call *)w, op); }

static const nn_device device = {
    .forward = forward_op, .backward = backward_op, .arrive = arrive, .zero = zero, .copy = copy, .apply = apply_op};

int nn_cpu_prepare(sp_ctx *ctx, nn_cpu *cpu) {
  static float a[64 * 64], b[64 * 64], c[64 * 64]; /* oneDNN compiles its product when it is first asked for one */
  int st = nn_room(ctx);
  if (st) return st;
  st = nn_gemm(0, 1, 64, 64, 64, 1, a, 64, b, 64, 0, c, 64);
  st = st ? st : nn_gemm(0, 0, 64, 64, 64, 1, a, 64, b, 64, 1, c, 64);
  st = st ? st : nn_gemm(1, 0, 64, 64, 64, 1, a, 64, b, 64, 1, c, 64);
  if (st) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "oneDNN refused a matrix product");
  for (int i = 0; i < cpu->n_ops && !st; i++)
    if (cpu->ops[i].x == NN_X_CONV) st = nn_convs_prepare(ctx, cpu, &cpu->ops[i]);
  return st;
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
