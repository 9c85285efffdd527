/* SPDX-License-Identifier: MIT
 * cpu_run.c - one forward or backward of a planned network: binds the buffers of the call and walks the ops. */
#include "cpu_net.h"

#include <string.h>

static float *in_data(const sp_io *io, const nn_val *v) { return io->in[v->in_port].t[v->in_item].data; }

static float *out_data(const sp_list *list, const nn_val *v) {
  if (v->out_port < 0 || !list || (uint32_t)v->out_item >= list[v->out_port].n) return NULL;
  return list[v->out_port].t[v->out_item].data;
}

static float *at(void *base, size_t off) { return (float *)((char *)base + off); }

/* Finds this call's batch and the place of every value. */
static nn_call begin(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io, size_t front) {
  nn_call c = {.ctx = ctx, .par = nn_par_of(ctx), .cpu = cpu, .io = io, .n = cpu->batch};
  int saved = io->training && cpu->training;
  c.batch_stats = io->training && !cpu->frozen;
  c.tmp = (char *)io->scratch + front;
  c.worker = c.tmp + cpu->tmp_bytes;
  for (int i = 0; i < cpu->n_vals; i++) {
    nn_val *v = &cpu->vals[i];
    v->wanted = 1;
    if (v->in_port >= 0) {
      v->data = in_data(io, v);
      c.n = io->in[v->in_port].t[v->in_item].spec.shape[0];
      continue;
    }
    v->data = out_data(io->out, v);
    if (v->data) continue;
    if (v->out_port >= 0 && !v->uses) v->wanted = 0;
    else v->data = saved ? at(io->saved, v->off_saved) : at(io->scratch, v->off_infer);
  }
  return c;
}

int nn_fail(const nn_call *c, const nn_xop *op, const char *words) {
  return c->ctx->host->fail(c->ctx, SP_E_UNSUPPORTED, "%s (op %d): %s", nn_kind_name(op->d.kind),
                            (int)(op - c->cpu->ops), words);
}

nn_grad nn_grad_of(const nn_call *c, int w) {
  if (c->cpu->frozen) return (nn_grad){NULL, 0, 0};
  if (c->io->dw_scale) return (nn_grad){nn_weight(c, w), *c->io->dw_scale, 1};
  return (nn_grad){c->io->dweights ? c->io->dweights[w].data : NULL, 1, c->io->dw_acc ? 1 : 0};
}

float *nn_din(const nn_call *c, int i, int *acc, const float **mask) {
  nn_val *v = &c->cpu->vals[i];
  *acc = v->gset;
  *mask = v->masked ? v->data : NULL;
  if (!v->need) return NULL;
  v->gset = 1;
  return v->grad;
}

static int forward_op(const nn_call *c, const nn_xop *op) {
  switch (op->x) {
    case NN_X_GEMM: return nn_gemm_forward(c, op);
    case NN_X_CONV: return nn_convs_forward(c, op);
    case NN_X_NORM: return nn_norm_forward(c, op);
    case NN_X_POOL: return nn_pool_forward(c, op);
    default: return nn_move_forward(c, op);
  }
}

static int backward_op(const nn_call *c, const nn_xop *op) {
  switch (op->x) {
    case NN_X_GEMM: return nn_gemm_backward(c, op);
    case NN_X_CONV: return nn_convs_backward(c, op);
    case NN_X_NORM: return nn_norm_backward(c, op);
    case NN_X_POOL: return nn_pool_backward(c, op);
    default: return nn_move_backward(c, op);
  }
}

int nn_cpu_prepare(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io) {
  static float a[64 * 64], b[64 * 64], c[64 * 64]; /* oneDNN compiles its product when it is first asked for one */
  int st = nn_gemm(0, 1, 64, 64, 64, 1, a, 64, b, 64, 0, c, 64);
  (void)io;
  st = st ? st : nn_gemm(0, 0, 64, 64, 64, 1, a, 64, b, 64, 1, c, 64);
  st = st ? st : nn_gemm(1, 0, 64, 64, 64, 1, a, 64, b, 64, 1, c, 64);
  if (st) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "oneDNN refused a matrix product");
  for (int i = 0; i < cpu->n_ops && !st; i++)
    if (cpu->ops[i].x == NN_X_CONV) st = nn_convs_prepare(ctx, cpu, &cpu->ops[i]);
  return st;
}

int nn_cpu_forward(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io) {
  nn_call c = begin(ctx, cpu, io, io->training && cpu->training ? 0 : cpu->infer_bytes);
  int st = SP_OK;
  if (c.n < 1 || c.n > cpu->batch)
    return ctx->host->fail(ctx, SP_E_SHAPE, "a batch of %lld, planned for 1 to %lld", (long long)c.n,
                           (long long)cpu->batch);
  for (int i = 0; i < cpu->n_ops && !st; i++)
    if (cpu->vals[cpu->ops[i].out].wanted) st = forward_op(&c, &cpu->ops[i]);
  return st;
}

/* Which values need a gradient: those above a trained weight or a wanted input gradient. */
static void needs(const nn_call *c) {
  const sp_io *io = c->io;
  nn_cpu *cpu = c->cpu;
  for (int i = 0; i < cpu->n_vals; i++) {
    nn_val *v = &cpu->vals[i];
    v->grad = at(io->scratch, v->off_grad);
    v->gset = v->need = 0;
    if (v->in_port < 0) continue;
    v->grad = io->din ? io->din[v->in_port].t[v->in_item].data : NULL;
    v->need = v->grad != NULL;
    v->gset = v->need && io->din_acc && io->din_acc[v->in_port] && io->din_acc[v->in_port][v->in_item];
  }
  for (int i = 0; i < cpu->n_ops; i++) {
    const nn_xop *op = &cpu->ops[i];
    int need = cpu->vals[op->in].need || (op->in2 >= 0 && cpu->vals[op->in2].need);
    if (op->d.w >= 0)
      for (int w = 0; w < 2; w++)
        if (w == 0 || op->d.bias || op->x == NN_X_NORM) need |= nn_grad_of(c, op->d.w + w).p != NULL;
    cpu->vals[op->out].need = need;
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

static int zero_din(const nn_call *c) {
  for (int i = 0; i < c->cpu->n_vals; i++) {
    nn_val *v = &c->cpu->vals[i];
    if (v->in_port >= 0 && v->need && !v->gset) memset(v->grad, 0, (size_t)(c->n * v->px * v->c) * sizeof(float));
  }
  return SP_OK;
}

static void zero_dw(const nn_call *c, const nn_op *op) {
  for (int w = 0; op->w >= 0 && w < 2; w++)
    if (w == 0 || op->bias || op->kind == NN_OP_BATCH_NORM) {
      nn_grad g = nn_grad_of(c, op->w + w);
      const sp_spec *s = &c->cpu->net.weights[op->w + w].spec;
      size_t n = sizeof(float);
      for (int i = 0; i < s->ndim; i++) n *= (size_t)s->shape[i];
      if (g.p && g.beta == 0) memset(g.p, 0, n);
    }
}

/* The gradient of what op computes, complete and masked by its ReLU; 0: there is none. */
static int arrive(const nn_call *c, const nn_xop *op, int *there) {
  nn_val *v = &c->cpu->vals[op->out];
  seed s = {.n = c->n * v->px * v->c};
  int relu = op->d.relu && !v->masked, st = SP_OK;
  const float *dout = out_data(c->io->dout, v);
  *there = v->gset || dout;
  if (!*there) return SP_OK;
  if (dout && !v->uses && !relu) {
    v->grad = (float *)(uintptr_t)dout;
    return SP_OK;
  }
  s.d = v->grad;
  if (relu) s.y = v->data;
  if (dout && !v->gset) {
    s.g = dout;
    return nn_run(&c->par, NN_CHUNKS, seed_chunk, &s);
  }
  if (dout) nn_axpy(v->grad, dout, 1, 1, s.n);
  if (relu) st = nn_run(&c->par, NN_CHUNKS, mask_chunk, &s);
  return st;
}

int nn_cpu_backward(sp_ctx *ctx, nn_cpu *cpu, const sp_io *io) {
  nn_call c = begin(ctx, cpu, io, cpu->grad_bytes);
  int st = SP_OK;
  if (!cpu->training)
    return ctx->host->fail(ctx, SP_E_STATE, "backward of a network that was planned without training");
  c.batch_stats = !cpu->frozen;
  for (int i = 0; i < cpu->n_vals; i++) /* what forward() left */
    if (cpu->vals[i].in_port < 0 && !out_data(io->out, &cpu->vals[i]))
      cpu->vals[i].data = at(io->saved, cpu->vals[i].off_saved);
  needs(&c);
  for (int i = cpu->n_ops - 1; i >= 0 && !st; i--) {
    nn_xop *op = &cpu->ops[i];
    int there = 0;
    if (!cpu->vals[op->out].need) continue;
    st = arrive(&c, op, &there);
    if (st) break;
    if (there) st = backward_op(&c, op);
    else zero_dw(&c, &op->d);
  }
  return st ? st : zero_din(&c);
}
