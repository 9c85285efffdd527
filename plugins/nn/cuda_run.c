/* SPDX-License-Identifier: MIT
 * cuda_run.c - one forward or backward of a planned network: binds the buffers of the call and enqueues the ops. */
#include "cuda_net.h"

#include <cuda_runtime_api.h>

int nnc_fail(const nnc_call *c, const nn_xop *op, int status, const char *words) {
  return c->ctx->host->fail(c->ctx, status, "%s (op %d): %s", nn_kind_name(op->d.kind), (int)(op - c->cuda->low.ops),
                            words);
}

int nnc_check(const nnc_call *c, const nn_xop *op, int err) {
  return err ? nnc_fail(c, op, SP_E_DEVICE, cudaGetErrorString((cudaError_t)err)) : SP_OK;
}

static int check(const nnc_call *c, cudaError_t err, const char *what) {
  return err ? c->ctx->host->fail(c->ctx, SP_E_DEVICE, "%s: %s", what, cudaGetErrorString(err)) : SP_OK;
}

int nnc_workspace(nnc_call *c) { return c->workspace ? SP_OK : c->cuda->ext->workspace(c->ctx, &c->workspace); }

nnk_sum nnc_grad_of(const nnc_call *c, int w) {
  if (c->cuda->low.frozen) return (nnk_sum){NULL, NULL, 0};
  if (c->io->dw_scale) return (nnk_sum){nnc_weight(c, w), c->io->dw_scale, 1};
  return (nnk_sum){c->io->dweights ? c->io->dweights[w].data : NULL, NULL, c->io->dw_acc ? 1 : 0};
}

const nnk_map *nnc_din(const nnc_call *c, int i, int *add, const nnk_map **mask) {
  nn_val *v = &c->cuda->low.vals[i];
  *add = v->gset;
  *mask = v->masked ? &c->cuda->data[i] : NULL;
  if (!v->need) return NULL;
  v->gset = 1;
  return &c->cuda->grad[i];
}

static void *out_data(const sp_list *list, const nn_val *v) {
  if (v->out_port < 0 || !list || (uint32_t)v->out_item >= list[v->out_port].n) return NULL;
  return list[v->out_port].t[v->out_item].data;
}

static void *at(void *base, size_t off) { return (char *)base + off; }

/* Finds this call's batch and the place of every value. `front`: bytes of scratch between the fixed part and tmp. */
static nnc_call begin(sp_ctx *ctx, nn_cuda *cuda, const sp_io *io, size_t front, int backward) {
  nnc_call c = {.ctx = ctx, .cuda = cuda, .io = io, .stream = ctx->stream, .n = cuda->low.batch};
  int saved = backward || (io->training && cuda->low.training);
  c.fixed = io->scratch;
  c.tmp = c.fixed + cuda->fixed_bytes + front;
  c.pieces = c.tmp + cuda->low.tmp_bytes;
  c.batch_stats = (backward || io->training) && !cuda->low.frozen;
  for (int i = 0; i < cuda->low.n_vals; i++)
    if (cuda->low.vals[i].in_port >= 0)
      c.n = io->in[cuda->low.vals[i].in_port].t[cuda->low.vals[i].in_item].spec.shape[0];
  for (int i = 0; i < cuda->low.n_vals; i++) {
    nn_val *v = &cuda->low.vals[i];
    nnk_map *m = &cuda->data[i];
    *m = nnc_map(v, c.n);
    v->wanted = 1;
    if (v->in_port >= 0) m->p = io->in[v->in_port].t[v->in_item].data;
    else if (!(m->p = out_data(io->out, v))) {
      if (v->out_port >= 0 && !v->uses) v->wanted = 0;
      else m->p = saved ? at(io->saved, v->off_saved) : at(c.fixed + cuda->fixed_bytes, v->off_infer);
    }
  }
  nnc_stem_choose(cuda);
  return c;
}

static int check_batch(const nnc_call *c) {
  int64_t most = c->cuda->low.batch;
  if (c->n >= 1 && c->n <= most) return SP_OK;
  return c->ctx->host->fail(c->ctx, SP_E_SHAPE, "a batch of %lld, planned for 1 to %lld", (long long)c->n,
                            (long long)most);
}

/* ---- what is made of the weights at the start of each call ------------------------------------------------------- */
static int repeat_biases(const nnc_call *c) {
  const nn_low *low = &c->cuda->low;
  float *dst[NNK_LIST];
  const float *src[NNK_LIST];
  int64_t count[NNK_LIST], period[NNK_LIST];
  int n = 0, err = 0;
  for (int i = 0; i < low->n_ops && !err; i++) {
    const nn_xop *op = &low->ops[i];
    if (!nnc_gemm_repeats(op) || !low->vals[op->out].wanted) continue;
    dst[n] = (float *)(c->fixed + c->cuda->cops[i].off_bias);
    src[n] = nnc_weight(c, op->d.w + 1);
    period[n] = low->vals[op->out].c;
    count[n] = period[n] * op->d.k[0] * op->d.k[1];
    if (++n < NNK_LIST) continue;
    err = nnk_repeat(c->stream, n, dst, src, count, period);
    n = 0;
  }
  if (!err && n) err = nnk_repeat(c->stream, n, dst, src, count, period);
  return check(c, (cudaError_t)err, "the biases");
}

static int cast_weights(const nnc_call *c, int backward) {
  const nn_low *low = &c->cuda->low;
  void *dst[NNK_LIST];
  const float *src[NNK_LIST];
  int64_t count[NNK_LIST];
  int n = 0, err = 0;
  if (c->cuda->precision != SP_PRECISION_BF16) return SP_OK;
  for (int i = 0; i < low->n_ops && !err; i++) {
    const nn_xop *op = &low->ops[i];
    if (op->x != NN_X_CONV && !(op->x == NN_X_GEMM && nnc_gemm_casts(c, op, backward))) continue;
    if (!(backward ? low->vals[op->in].need : low->vals[op->out].wanted)) continue;
    dst[n] = c->fixed + c->cuda->cops[i].off_cast;
    src[n] = nnc_weight(c, op->d.w);
    count[n] = 1;
    for (int j = 0; j < low->net.weights[op->d.w].spec.ndim; j++) count[n] *= low->net.weights[op->d.w].spec.shape[j];
    if (++n < NNK_LIST) continue;
    err = nnk_cast(c->stream, n, dst, src, count);
    n = 0;
  }
  if (!err && n) err = nnk_cast(c->stream, n, dst, src, count);
  return check(c, (cudaError_t)err, "the weights as bfloat16");
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */
int nn_cuda_prepare(sp_ctx *ctx, nn_cuda *cuda, const sp_io *io) {
  nnc_call c = begin(ctx, cuda, io, 0, 0);
  int st = check_batch(&c);
  cuda->ext = ctx->host->get_extension(ctx, SP_EXT_CUDA);
  if (!cuda->ext) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "the device has no extension %s", SP_EXT_CUDA);
  for (int i = 0; i < cuda->low.n_ops && !st; i++) {
    const nn_xop *op = &cuda->low.ops[i];
    if (cuda->cops[i].first) st = nnc_stem_prepare(&c, op);
    if (st || cuda->low.vals[op->in].unstored) continue;
    if (op->x == NN_X_GEMM) st = nnc_gemm_prepare(&c, op);
    else if (op->x == NN_X_CONV) st = nnc_conv_prepare(&c, op);
  }
  return st;
}

int nn_cuda_forward(sp_ctx *ctx, nn_cuda *cuda, const sp_io *io) {
  nn_low *low = &cuda->low;
  nnc_call c = begin(ctx, cuda, io, io->training && low->training ? 0 : low->infer_bytes, 0);
  int st = check_batch(&c);
  if (!st) st = repeat_biases(&c);
  if (!st) st = cast_weights(&c, 0);
  for (int i = 0; i < low->n_ops && !st; i++) {
    const nn_xop *op = &low->ops[i];
    if (!low->vals[op->out].wanted) continue;
    if (cuda->cops[i].first && !low->vals[op->in].wanted) st = nnc_stem_forward(&c, op);
    else if (op->x == NN_X_GEMM) st = nnc_gemm_forward(&c, op);
    else if (op->x == NN_X_CONV) st = nnc_conv_forward(&c, op);
    else st = nnc_op_forward(&c, op);
  }
  return st;
}

/* ---- gradients of biases ----------------------------------------------------------------------------------------- */
static nnk_sum bias_sum(const nnc_call *c, const nn_xop *op) {
  int has = op->d.bias && (op->x == NN_X_GEMM || op->x == NN_X_CONV);
  return has ? nnc_grad_of(c, op->d.w + 1) : (nnk_sum){NULL, NULL, 0};
}

static float *pieces_of(const nnc_call *c, const nn_xop *op) {
  return (float *)(c->pieces + nnc_cop(c, op)->off_pieces);
}

int nnc_mask(nnc_call *c, int v, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask) {
  const nn_xop *made = &c->cuda->low.ops[c->cuda->low.vals[v].producer];
  if (!bias_sum(c, made).p) return nnk_mask(c->stream, dx, dy, mask, 0);
  return nnk_mask_pieces(c->stream, dx, dy, mask, pieces_of(c, made), &nnc_cop(c, made)->pieces);
}

static int add_up(nnc_call *c) {
  int n = c->n_later;
  c->n_later = 0;
  return check(c, (cudaError_t)nnk_add_pieces(c->stream, n, c->later), "sums of gradients");
}

int nnc_add_later(nnc_call *c, const nnk_pieces *p) {
  int st = c->n_later == NNK_LIST ? add_up(c) : SP_OK;
  c->later[c->n_later++] = *p;
  return st;
}

int nnc_bias_later(nnc_call *c, int v, nnk_pieces sums) {
  const nn_xop *made = &c->cuda->low.ops[c->cuda->low.vals[v].producer];
  sums.dst = bias_sum(c, made);
  if (!sums.dst.p) return SP_OK;
  nnc_cop(c, made)->pieces = -1;
  return nnc_add_later(c, &sums);
}

int nnc_bias_grad(nnc_call *c, const nn_xop *op) {
  const nnk_map *dy = &c->cuda->grad[op->out];
  nn_cop *cop = nnc_cop(c, op);
  nnk_pieces p = {bias_sum(c, op), pieces_of(c, op), dy->c, dy->c, 0};
  int st = SP_OK;
  if (!p.dst.p || cop->pieces < 0) return SP_OK;
  if (!cop->pieces) st = nnc_check(c, op, nnk_bias_pieces(c->stream, dy, pieces_of(c, op), &cop->pieces));
  p.pieces = cop->pieces;
  return st ? st : nnc_add_later(c, &p);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */
/* Which values need a gradient: those above a trained weight or a wanted input gradient. */
static void needs(const nnc_call *c) {
  const sp_io *io = c->io;
  nn_low *low = &c->cuda->low;
  for (int i = 0; i < low->n_vals; i++) {
    nn_val *v = &low->vals[i];
    nnk_map *g = &c->cuda->grad[i];
    *g = nnc_map(v, c->n);
    g->p = at(c->fixed + c->cuda->fixed_bytes, v->off_grad);
    v->gset = v->need = 0;
    if (v->in_port < 0) continue;
    g->p = io->din ? io->din[v->in_port].t[v->in_item].data : NULL;
    v->need = g->p != NULL;
    v->gset = v->need && io->din_acc && io->din_acc[v->in_port] && io->din_acc[v->in_port][v->in_item];
  }
  for (int i = 0; i < low->n_ops; i++) {
    const nn_xop *op = &low->ops[i];
    int need = low->vals[op->in].need || (op->in2 >= 0 && low->vals[op->in2].need);
    c->cuda->cops[i].pieces = 0;
    if (op->d.w >= 0)
      for (int w = 0; w < 2; w++)
        if (w == 0 || op->d.bias || op->x == NN_X_NORM) need |= nnc_grad_of(c, op->d.w + w).p != NULL;
    low->vals[op->out].need = need;
  }
}

static int zero(const nnc_call *c, void *p, size_t bytes) {
  return check(c, cudaMemsetAsync(p, 0, bytes, c->stream), "a gradient of zeros");
}

static int zero_din(const nnc_call *c) {
  int st = SP_OK;
  for (int i = 0; i < c->cuda->low.n_vals && !st; i++) {
    const nn_val *v = &c->cuda->low.vals[i];
    if (v->in_port >= 0 && v->need && !v->gset) st = zero(c, c->cuda->grad[i].p, nnc_map_bytes(v, c->n));
  }
  return st;
}

static int zero_dw(const nnc_call *c, const nn_op *op) {
  int st = SP_OK;
  for (int w = 0; op->w >= 0 && w < 2 && !st; w++)
    if (w == 0 || op->bias || op->kind == NN_OP_BATCH_NORM) {
      nnk_sum g = nnc_grad_of(c, op->w + w);
      const sp_spec *s = &c->cuda->low.net.weights[op->w + w].spec;
      size_t n = sizeof(float);
      for (int i = 0; i < s->ndim; i++) n *= (size_t)s->shape[i];
      if (g.p && !g.add) st = zero(c, g.p, n);
    }
  return st;
}

/* The gradient of what op computes, complete and masked by its ReLU; *there 0: there is none. */
static int arrive(nnc_call *c, const nn_xop *op, int *there) {
  const nn_val *v = &c->cuda->low.vals[op->out];
  nnk_map *g = &c->cuda->grad[op->out], from = *g;
  const nnk_map *mask = op->d.relu && !v->masked ? &c->cuda->data[op->out] : NULL;
  void *dout = out_data(c->io->dout, v);
  int err = 0;
  *there = v->gset || dout;
  if (!*there) return SP_OK;
  from.p = dout;
  if (dout && !v->uses && !mask) {
    g->p = dout;
    return SP_OK;
  }
  if (dout && v->gset) err = nnk_copy(c->stream, g, &from, 1);
  else if (dout && !mask) err = nnk_copy(c->stream, g, &from, 0);
  if (!err && mask) err = nnc_mask(c, op->out, g, v->gset ? g : &from, mask);
  return nnc_check(c, op, err);
}

int nn_cuda_backward(sp_ctx *ctx, nn_cuda *cuda, const sp_io *io) {
  nn_low *low = &cuda->low;
  nnc_call c = begin(ctx, cuda, io, low->grad_bytes, 1);
  int st = check_batch(&c);
  if (!low->training)
    return ctx->host->fail(ctx, SP_E_STATE, "backward of a network that was planned without training");
  needs(&c);
  if (!st && io->dw_scale) st = check(&c, (cudaError_t)nnk_fill(c.stream, nnc_one(&c), 1, 1), "a constant");
  if (!st) st = cast_weights(&c, 1);
  for (int i = low->n_ops - 1; i >= 0 && !st; i--) {
    const nn_xop *op = &low->ops[i];
    int there = 0;
    if (!low->vals[op->out].need || low->vals[op->out].unstored) continue;
    st = arrive(&c, op, &there);
    if (st) break;
    if (!there) {
      st = zero_dw(&c, &op->d);
      if (!st && cuda->cops[i].first) st = zero_dw(&c, &cuda->cops[i].first->d);
    } else if (cuda->cops[i].first) st = nnc_stem_backward(&c, op);
    else if (op->x == NN_X_GEMM) st = nnc_gemm_backward(&c, op);
    else if (op->x == NN_X_CONV) st = nnc_conv_backward(&c, op);
    else st = nnc_op_backward(&c, op);
  }
  if (!st) st = add_up(&c);
  return st ? st : zero_din(&c);
}
