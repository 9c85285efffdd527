/* SPDX-License-Identifier: MIT
 * run.c - what CUDA does when a planned network is walked: everything is enqueued on the call's stream. */
#include "cuda_net.h"

#include <cuda_runtime_api.h>

int nnc_fail(const nnc_call *c, const nn_xop *op, int status, const char *words) {
  return nn_walk_fail(&c->w, op, status, words);
}

int nnc_check(const nnc_call *c, const nn_xop *op, int err) {
  return err ? nnc_fail(c, op, SP_E_DEVICE, cudaGetErrorString((cudaError_t)err)) : SP_OK;
}

static int check(const nnc_call *c, cudaError_t err, const char *what) {
  return err ? c->w.ctx->host->fail(c->w.ctx, SP_E_DEVICE, "%s: %s", what, cudaGetErrorString(err)) : SP_OK;
}

int nnc_workspace(nnc_call *c) { return c->workspace ? SP_OK : c->cuda->ext->workspace(c->w.ctx, &c->workspace); }

nnk_sum nnc_grad_of(const nnc_call *c, int w) {
  int add;
  float *p = nn_dweight(&c->w, w, &add);
  return (nnk_sum){p, p ? c->w.io->dw_scale : NULL, add};
}

nnk_sum nnc_applied(const nnc_call *c, int w) {
  int add;
  float *p = nn_applied(&c->w, w, &add);
  return (nnk_sum){p, c->w.io->dw_scale, add};
}

nnk_map nnc_data(const nnc_call *c, int v) {
  nnk_map m = nnc_map(&c->w.low->vals[v], c->w.n);
  m.p = c->w.at[v].data;
  return m;
}

nnk_map nnc_grad(const nnc_call *c, int v) {
  nnk_map m = nnc_map(&c->w.low->vals[v], c->w.n);
  m.p = c->w.at[v].grad;
  return m;
}

void nnc_din(const nnc_call *c, int v, nnc_into *into) {
  int masked, wanted = nn_write_grad(&c->w, v, &into->add, &masked);
  into->map = nnc_grad(c, v);
  into->sign = nnc_data(c, v);
  into->dx = wanted ? &into->map : NULL;
  into->mask = masked ? &into->sign : NULL;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */
const float *nnc_product_weight(const nnc_call *c, const nn_xop *op) {
  return op->d.norm ? (const float *)(c->fixed + op->off_w) : nnc_weight(c, op->d.w);
}

const float *nnc_product_bias(const nnc_call *c, const nn_xop *op) {
  if (op->d.norm) return (const float *)(c->fixed + op->off_b);
  return op->d.bias ? nnc_weight(c, op->d.w + 1) : NULL;
}

nnk_map nnc_product_plus(const nnc_call *c, const nn_xop *op) {
  return op->d.n_more ? nnc_data(c, op->more[0]) : (nnk_map){NULL};
}

int nnc_plus_backward(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  nnc_into in;
  if (!op->d.n_more) return SP_OK;
  nnc_din(c, op->more[0], &in);
  return in.dx ? nnc_check(c, op, nnk_mask(c->stream, in.dx, &dy, in.mask, in.add)) : SP_OK;
}

/* ---- what is made of the weights, at the start of each call, or once: constants ---------------------------------- */
static int fold_norm(const nnc_call *c, const nn_xop *op) {
  const nn_low *low = &c->cuda->low;
  const sp_tensor *norm = &c->w.io->weights[op->d.norm - 1];
  nnk_folded f = {.to_w = (float *)(c->fixed + op->off_w),
                  .to_b = (float *)(c->fixed + op->off_b),
                  .w = nnc_weight(c, op->d.w),
                  .bias = op->d.bias ? nnc_weight(c, op->d.w + 1) : NULL,
                  .gamma = norm[0].data,
                  .beta = norm[1].data,
                  .mean = norm[2].data,
                  .var = norm[3].data,
                  .eps = op->d.eps,
                  .count = (int64_t)(nn_weight_bytes(low, op->d.w) / sizeof(float)),
                  .c = low->vals[op->out].c,
                  .channels = nn_channels_of(low, op)};
  return nnc_check(c, op, nnk_fold(c->stream, &f));
}

static int repeat_biases(const nnc_call *c) {
  const nn_low *low = &c->cuda->low;
  float *dst[NNK_LIST];
  const float *src[NNK_LIST];
  int64_t count[NNK_LIST], period[NNK_LIST];
  int n = 0, err = 0;
  for (int i = 0; i < low->n_ops && !err; i++) {
    const nn_xop *op = &low->ops[i];
    if (!nnc_gemm_repeats(op) || !(low->frozen || c->w.at[op->out].wanted)) continue;
    dst[n] = (float *)(c->fixed + c->cuda->cops[i].off_bias);
    src[n] = nnc_product_bias(c, op);
    period[n] = low->vals[op->out].c;
    count[n] = period[n] * op->d.k[0] * op->d.k[1];
    if (++n < NNK_LIST) continue;
    err = nnk_repeat(c->stream, n, dst, src, count, period);
    n = 0;
  }
  if (!err && n) err = nnk_repeat(c->stream, n, dst, src, count, period);
  return check(c, (cudaError_t)err, "the biases");
}

/* Arrays that are to be cast. */
typedef struct casts {
  void *dst[NNK_LIST];
  const float *src[NNK_LIST];
  int64_t count[NNK_LIST];
  int n;
} casts;

static int cast_all(const nnc_call *c, casts *k) {
  int n = k->n;
  k->n = 0;
  return n ? check(c, (cudaError_t)nnk_cast(c->stream, n, k->dst, k->src, k->count), "the weights as bfloat16") : SP_OK;
}

static int cast(const nnc_call *c, casts *k, size_t to, const float *from, int64_t count) {
  k->dst[k->n] = c->fixed + to;
  k->src[k->n] = from;
  k->count[k->n++] = count;
  return k->n < NNK_LIST ? SP_OK : cast_all(c, k);
}

/* Does this call read op's weights as bfloat16? */
static int casts_for(const nnc_call *c, const nn_xop *op, int backward) {
  if (op->x != NN_X_CONV && !(op->x == NN_X_GEMM && nnc_gemm_casts(c, op, backward))) return 0;
  return backward ? c->w.at[op->in].need : c->w.at[op->out].wanted;
}

static int cast_bias(const nnc_call *c, casts *k, const nn_xop *op) {
  const nn_low *low = &c->cuda->low;
  int64_t count = low->vals[op->out].c;
  size_t to = nnc_cop(c, op)->off_narrow;
  if (nnc_gemm_repeats(op)) count *= op->d.k[0] * op->d.k[1];
  if (nnc_gemm_narrows(low, op)) return cast(c, k, to, nnc_gemm_bias(c, op), count);
  return low->frozen && op->x == NN_X_CONV && nnc_has_bias(op) ? cast(c, k, to, nnc_product_bias(c, op), count) : SP_OK;
}

static int cast_weights(const nnc_call *c, int backward) {
  const nn_low *low = &c->cuda->low;
  casts k = {.n = 0};
  int st = SP_OK;
  if (c->cuda->precision != SP_PRECISION_BF16) return SP_OK;
  for (int i = 0; i < low->n_ops && !st; i++) {
    const nn_xop *op = &low->ops[i];
    const nn_cop *cop = &c->cuda->cops[i];
    if (low->frozen ? op->x != NN_X_CONV && op->x != NN_X_GEMM : !casts_for(c, op, backward)) continue;
    st =
        cast(c, &k, cop->off_cast, nnc_product_weight(c, op), (int64_t)(nn_weight_bytes(low, op->d.w) / sizeof(float)));
    if (!st && !backward) st = cast_bias(c, &k, op);
  }
  return st ? st : cast_all(c, &k);
}

static int make_constants(const nnc_call *c) {
  const nn_low *low = &c->cuda->low;
  int st = SP_OK;
  for (int i = 0; i < low->n_ops && !st; i++)
    if (low->ops[i].d.norm) st = fold_norm(c, &low->ops[i]);
  if (!st) st = repeat_biases(c);
  if (!st) st = cast_weights(c, 0);
  return st ? st : nnc_ways_pack(c);
}

/* ---- gradients of biases ----------------------------------------------------------------------------------------- */
static nnk_sum bias_sum(const nnc_call *c, const nn_xop *op) {
  return nnc_sums_bias(op) ? nnc_grad_of(c, op->d.w + 1) : (nnk_sum){NULL, NULL, 0};
}

static float *pieces_of(const nnc_call *c, const nn_xop *op) {
  return (float *)(c->w.more + nnc_cop(c, op)->off_pieces);
}

float *nnc_mask_sums(nnc_call *c, int v, int64_t **pieces) {
  const nn_xop *made = &c->cuda->low.ops[c->cuda->low.vals[v].producer];
  if (!bias_sum(c, made).p) return NULL;
  *pieces = &c->pieces[nnc_index(c, made)];
  return pieces_of(c, made);
}

int nnc_mask(nnc_call *c, int v, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask) {
  int64_t *pieces;
  float *sums = nnc_mask_sums(c, v, &pieces);
  if (!sums) return nnk_mask(c->stream, dx, dy, mask, 0);
  return nnk_mask_pieces(c->stream, dx, dy, mask, sums, pieces);
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
  c->pieces[nnc_index(c, made)] = -1;
  if (made->part == (int)c->w.io->part) return nnc_add_later(c, &sums);
  c->cuda->left[nnc_index(c, made)].sums = sums; /* another part completes that gradient */
  return SP_OK;
}

int nnc_bias_grad(nnc_call *c, const nn_xop *op) {
  nnk_map dy = nnc_grad(c, op->out);
  int64_t *pieces = &c->pieces[nnc_index(c, op)];
  nnk_pieces p = {bias_sum(c, op), pieces_of(c, op), dy.c, dy.c, 0};
  int st = SP_OK;
  if (!p.dst.p || *pieces < 0) return SP_OK;
  if (!*pieces) st = nnc_check(c, op, nnk_bias_pieces(c->stream, &dy, pieces_of(c, op), pieces));
  p.pieces = *pieces;
  return st ? st : nnc_add_later(c, &p);
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */
const nnc_op nnc_row_gemm = {.forward = nnc_gemm_forward,
                             .backward = nnc_gemm_backward,
                             .size = nnc_gemm_size,
                             .prepare = nnc_gemm_prepare,
                             .apply = nnc_gemm_apply};
const nnc_op nnc_row_conv = {
    .forward = nnc_conv_forward, .backward = nnc_conv_backward, .size = nnc_conv_size, .prepare = nnc_conv_prepare};

const nnc_op *const nnc_ops[NN_EXECS] = {
#define NN_EXEC(ID, row, is) [NN_X_##ID] = &nnc_row_##row,
#include "../ops/ops.list"
};

/* ---- the walk ---------------------------------------------------------------------------------------------------- */
static void bind(nn_walk *w) { nnc_groups_bind((const nnc_call *)w); }

static int start(nn_walk *w, int backward) {
  const nnc_call *c = (const nnc_call *)w;
  int st = SP_OK;
  if (c->cuda->low.frozen) return SP_OK;
  if (!backward) st = repeat_biases(c);
  return st ? st : cast_weights(c, backward);
}

static int forward_op(nn_walk *w, const nn_xop *op) {
  nnc_call *c = (nnc_call *)w;
  int st;
  if (nnc_group_forward(c, op, &st)) return st;
  return nnc_ops[op->x]->forward(c, op);
}

/* Sums of op's bias' gradient that an earlier part has taken. */
static int add_left(nnc_call *c, const nn_xop *op) {
  const nnc_left *left = c->cuda->left ? &c->cuda->left[nnc_index(c, op)] : NULL;
  return left && left->pieces < 0 ? nnc_add_later(c, &left->sums) : SP_OK;
}

static int backward_op(nn_walk *w, const nn_xop *op) {
  nnc_call *c = (nnc_call *)w;
  int st = add_left(c, op);
  if (st) return st;
  if (nnc_group_backward(c, op, &st)) return st;
  return nnc_ops[op->x]->backward(c, op);
}

static int arrive(nn_walk *w, const nn_xop *op, const void *dout, int relu) {
  nnc_call *c = (nnc_call *)w;
  nnk_map g = nnc_grad(c, op->out), from = g, y = nnc_data(c, op->out);
  int err = 0, there = w->at[op->out].gset;
  from.p = (void *)(uintptr_t)dout;
  if (dout && (there || !relu)) err = nnk_copy(c->stream, &g, &from, there);
  if (!err && relu) err = nnc_mask(c, op->out, &g, there ? &g : &from, &y);
  return nnc_check(c, op, err);
}

static int zero(nn_walk *w, void *p, size_t bytes) {
  const nnc_call *c = (const nnc_call *)w;
  return check(c, cudaMemsetAsync(p, 0, bytes, c->stream), "a gradient of zeros");
}

static int copy(nn_walk *w, void *to, const void *from, size_t bytes) {
  const nnc_call *c = (const nnc_call *)w;
  return check(c, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, c->stream), "a factor");
}

static int apply_op(nn_walk *w, const nn_xop *op) { return nnc_ops[op->x]->apply((nnc_call *)w, op); }

static int finish(nn_walk *w) { return add_up((nnc_call *)w); }

static const nn_device device = {.bind = bind,
                                 .start = start,
                                 .finish = finish,
                                 .forward = forward_op,
                                 .backward = backward_op,
                                 .arrive = arrive,
                                 .zero = zero,
                                 .copy = copy,
                                 .apply = apply_op};

static nnc_call call_of(sp_ctx *ctx, const nn_cuda *cuda, const sp_io *io, nn_at *at) {
  int apart = cuda->low.frozen;
  char *values = io->scratch;
  return (nnc_call){
      .w = {.ctx = ctx, .io = io, .low = &cuda->low, .at = at, .values = values + (apart ? 0 : cuda->fixed_bytes)},
      .cuda = cuda,
      .stream = ctx->stream,
      .fixed = apart ? io->consts : io->scratch};
}

/* Scratch was cut for the device of plan(); the code of this module may be made for less than it has. */
static int same_device(sp_ctx *ctx, nn_cuda *cuda) {
  nnc_device is = nnc_device_of(cuda->ext);
  if (is.capability != cuda->device.capability || is.multiprocessors != cuda->device.multiprocessors)
    return ctx->host->fail(
        ctx, SP_E_STATE,
        "planned for a GPU of compute capability %d.%d with %d multiprocessors, this one has %d.%d and %d",
        cuda->device.capability / 10, cuda->device.capability % 10, cuda->device.multiprocessors, is.capability / 10,
        is.capability % 10, is.multiprocessors);
  nnc_device_code(&cuda->device);
  return SP_OK;
}

int nn_cuda_prepare(sp_ctx *ctx, nn_cuda *cuda, const sp_io *io) {
  nn_at at[cuda->low.n_vals];
  nnc_call c = call_of(ctx, cuda, io, at);
  int st;
  nn_walk_bind(&c.w, &device, 0);
  c.w.tmp = c.w.values;
  cuda->ext = ctx->host->get_extension(ctx, SP_EXT_CUDA);
  if (!cuda->ext) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "the device has no extension %s", SP_EXT_CUDA);
  st = same_device(ctx, cuda);
  if (!st) st = nn_walk_batch(&c.w);
  if (!st) st = check(&c, (cudaError_t)nnk_numbers(&cuda->numbers), "constants");
  if (!st && cuda->low.frozen) st = make_constants(&c);
  for (int i = 0; i < cuda->low.n_ops && !st; i++) {
    const nn_xop *op = &cuda->low.ops[i];
    if (cuda->low.vals[op->in].unstored) continue;
    if (nnc_ops[op->x]->prepare) st = nnc_ops[op->x]->prepare(&c, op);
  }
  return st ? st : nnc_groups_prepare(&c);
}

int nn_cuda_forward(sp_ctx *ctx, const nn_cuda *cuda, const sp_io *io) {
  nn_at at[cuda->low.n_vals];
  nnc_call c = call_of(ctx, cuda, io, at);
  return nn_forward(&c.w, &device);
}

int nn_cuda_backward(sp_ctx *ctx, const nn_cuda *cuda, const sp_io *io) {
  nn_at at[cuda->low.n_vals];
  int64_t pieces[cuda->low.n_ops];
  nnc_call c = call_of(ctx, cuda, io, at);
  for (int i = 0; i < cuda->low.n_ops; i++) pieces[i] = io->part ? cuda->left[i].pieces : 0;
  c.pieces = pieces;
  int st = nn_backward(&c.w, &device);
  for (int i = 0; cuda->left && i < cuda->low.n_ops; i++)
    if (cuda->low.ops[i].part > (int)io->part) cuda->left[i].pieces = pieces[i];
  return st;
}

int nn_cuda_apply(sp_ctx *ctx, const nn_cuda *cuda, const sp_io *io) {
  nnc_call c = call_of(ctx, cuda, io, NULL);
  return nn_apply(&c.w, &device);
}
