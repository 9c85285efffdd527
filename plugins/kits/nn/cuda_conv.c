/* SPDX-License-Identifier: MIT
 * cuda_conv.c - convolutions of any kernel, and their transposes, through cuDNN, channels-last.
 *
 * A transposed convolution runs the parts of the convolution that it transposes: its input is that one's result. Only
 * algorithms that give the same bits every time are candidates; prepare() measures them, and the choice is kept. */
#include "cuda_net.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>

/* cuDNN marks these functions in favour of graphs of its own making, which cannot be named by one number in a file. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum part { FWD, BWD_DATA, BWD_WEIGHTS, PARTS };

struct nn_dconv {
  nn_dconv *next;
  int64_t samples;
  int algo[PARTS];
  cudnnTensorDescriptor_t a, b; /* of the convolution a -> b */
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
};

typedef struct args {
  nnc_call *c;
  const nn_dconv *p;
  int part, algo, add;
  const void *from, *w; /* FWD: a. BWD_DATA: b. BWD_WEIGHTS: a, and w is b */
  void *to;
} args;

static int transposed(const nn_xop *op) { return op->d.kind == NN_OP_CONVT; }
static int part_forward(const nn_xop *op) { return transposed(op) ? BWD_DATA : FWD; }
static int part_data(const nn_xop *op) { return transposed(op) ? FWD : BWD_DATA; }

static int64_t weights_of(const nn_low *low, const nn_xop *op) {
  return low->vals[op->in].c * low->vals[op->out].c * op->d.k[0] * op->d.k[1];
}

void nnc_conv_size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  nn_low *low = &cuda->low;
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  size_t sum = nn_align((size_t)weights_of(low, op) * sizeof(float));
  cuda->cops[op - low->ops].off_cast = cuda->fixed_bytes;
  if (in->elt != NN_F32) cuda->fixed_bytes += sum;
  if (low->training) op->tmp = 2 * sum; /* the gradient as cuDNN gives it, and as float32 */
  *arena = nn_align(nnc_map_bytes(in, low->batch)) + nn_align(nnc_map_bytes(out, low->batch)) + sum;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */
void nnc_conv_free(nn_dconv *p) {
  while (p) {
    nn_dconv *next = p->next;
    if (p->a) cudnnDestroyTensorDescriptor(p->a);
    if (p->b) cudnnDestroyTensorDescriptor(p->b);
    if (p->w) cudnnDestroyFilterDescriptor(p->w);
    if (p->conv) cudnnDestroyConvolutionDescriptor(p->conv);
    free(p);
    p = next;
  }
}

static int tensor(cudnnTensorDescriptor_t *t, cudnnDataType_t type, const nn_val *v, int64_t n) {
  int st = (int)cudnnCreateTensorDescriptor(t);
  return st ? st
            : (int)cudnnSetTensor4dDescriptor(*t, CUDNN_TENSOR_NHWC, type, (int)n, (int)v->c, (int)v->h, (int)v->w);
}

static int describe(const nnc_call *c, const nn_xop *op, nn_dconv *p) {
  const nn_low *low = &c->cuda->low;
  const nn_val *a = &low->vals[transposed(op) ? op->out : op->in], *b = &low->vals[transposed(op) ? op->in : op->out];
  cudnnDataType_t type = a->elt == NN_F32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
  cudnnMathType_t math = c->cuda->precision == SP_PRECISION_FP32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  const int *k = op->d.k, *s = op->d.s, *pad = op->d.p;
  int st;
  if ((st = tensor(&p->a, type, a, c->w.n)) || (st = tensor(&p->b, type, b, c->w.n))) return st;
  if ((st = (int)cudnnCreateFilterDescriptor(&p->w))) return st;
  st = (int)cudnnSetFilter4dDescriptor(p->w, type, CUDNN_TENSOR_NHWC, (int)b->c, (int)a->c, k[0], k[1]);
  if (st || (st = (int)cudnnCreateConvolutionDescriptor(&p->conv))) return st;
  st = (int)cudnnSetConvolution2dDescriptor(p->conv, pad[0], pad[1], s[0], s[1], 1, 1, CUDNN_CROSS_CORRELATION,
                                            CUDNN_DATA_FLOAT);
  return st ? st : (int)cudnnSetConvolutionMathType(p->conv, math);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
static int run(void *arg) {
  const args *a = arg;
  const nn_dconv *p = a->p;
  const float one = 1, zero = 0, *beta = a->add ? &one : &zero;
  void *ws = a->c->workspace;
  size_t bytes = a->c->cuda->ext->workspace_bytes;
  switch (a->part) {
    case FWD:
      return (int)cudnnConvolutionForward(a->c->cudnn, &one, p->a, a->from, p->w, a->w, p->conv,
                                          (cudnnConvolutionFwdAlgo_t)a->algo, ws, bytes, beta, p->b, a->to);
    case BWD_DATA:
      return (int)cudnnConvolutionBackwardData(a->c->cudnn, &one, p->w, a->w, p->b, a->from, p->conv,
                                               (cudnnConvolutionBwdDataAlgo_t)a->algo, ws, bytes, beta, p->a, a->to);
    default:
      return (int)cudnnConvolutionBackwardFilter(a->c->cudnn, &one, p->a, a->from, p->b, a->w, p->conv,
                                                 (cudnnConvolutionBwdFilterAlgo_t)a->algo, ws, bytes, beta, p->w,
                                                 a->to);
  }
}

/* Can it be run at all, within the workspace, and with the same bits every time? */
static int usable(const args *a, int algo) {
  const nn_dconv *p = a->p;
  size_t bytes = 0;
  cudnnStatus_t st;
  switch (a->part) {
    case FWD:
      st = cudnnGetConvolutionForwardWorkspaceSize(a->c->cudnn, p->a, p->w, p->conv, p->b,
                                                   (cudnnConvolutionFwdAlgo_t)algo, &bytes);
      break;
    case BWD_DATA:
      if (algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0) return 0;
      st = cudnnGetConvolutionBackwardDataWorkspaceSize(a->c->cudnn, p->w, p->b, p->conv, p->a,
                                                        (cudnnConvolutionBwdDataAlgo_t)algo, &bytes);
      break;
    default:
      if (algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3) return 0;
      st = cudnnGetConvolutionBackwardFilterWorkspaceSize(a->c->cudnn, p->a, p->b, p->conv, p->w,
                                                          (cudnnConvolutionBwdFilterAlgo_t)algo, &bytes);
  }
  return !st && bytes <= a->c->cuda->ext->workspace_bytes;
}

static const int counts[PARTS] = {CUDNN_CONVOLUTION_FWD_ALGO_COUNT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                                  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT};

static int take(void *arg, const char *text) {
  args *a = arg;
  char *end;
  long algo = strtol(text, &end, 10);
  a->algo = (int)algo;
  return end != text && !*end && algo >= 0 && algo < counts[a->part] && usable(a, a->algo);
}

static int measure(void *arg, const char *key, char *text, size_t bytes) {
  args *a = arg;
  double best = -1, ms;
  int chosen = -1;
  for (int i = 0; i < counts[a->part]; i++) {
    if (!usable(a, i)) continue;
    a->algo = i;
    ms = nnc_measure(a->c, run, a);
    if (ms < 0 || (best >= 0 && ms >= best)) continue;
    best = ms;
    chosen = i;
  }
  if (chosen < 0) return nnc_no_choice(a->c, "cuDNN has no algorithm for", key);
  a->c->w.ctx->host->log(a->c->w.ctx, SP_LOG_DEBUG, "%s: %.2f us, algorithm %d", key, best * 1e3, chosen);
  snprintf(text, bytes, "%d", chosen);
  return SP_OK;
}

static int choose(nnc_call *c, const nn_xop *op, args *a) {
  static const char *const parts[] = {"forward", "data", "weights"}, *const precisions[] = {"fp32", "tf32", "bf16"};
  const nn_low *low = &c->cuda->low;
  const nn_val *x = &low->vals[transposed(op) ? op->out : op->in], *y = &low->vals[transposed(op) ? op->in : op->out];
  const nn_op *d = &op->d;
  char key[SP_CUDA_KEY_MAX];
  snprintf(key, sizeof key, "conv %s n%lld %lldx%lldx%lld to %lldx%lldx%lld k%dx%d s%dx%d p%dx%d %s ws%zu",
           parts[a->part], (long long)c->w.n, (long long)x->c, (long long)x->h, (long long)x->w, (long long)y->c,
           (long long)y->h, (long long)y->w, d->k[0], d->k[1], d->s[0], d->s[1], d->p[0], d->p[1],
           precisions[c->cuda->precision], c->cuda->ext->workspace_bytes);
  return nnc_tuned(c, key, take, measure, a);
}

static int handles(nnc_call *c) {
  int st = c->cudnn ? SP_OK : c->cuda->ext->cudnn(c->w.ctx, &c->cudnn);
  return st ? st : nnc_workspace(c);
}

static const void *weight(const nnc_call *c, const nn_xop *op) {
  return c->cuda->low.vals[op->in].elt == NN_F32 ? nnc_weight(c, op->d.w) : c->fixed + nnc_cop(c, op)->off_cast;
}

int nnc_conv_prepare(nnc_call *c, const nn_xop *op) {
  const nn_low *low = &c->cuda->low;
  nn_cop *cop = &c->cuda->cops[nnc_index(c, op)];
  char *x = c->w.tmp, *y = x + nn_align(nnc_map_bytes(&low->vals[op->in], c->w.n));
  char *g = y + nn_align(nnc_map_bytes(&low->vals[op->out], c->w.n));
  char *a = transposed(op) ? y : x, *b = transposed(op) ? x : y;
  nn_dconv *p;
  int parts = low->training ? low->frozen ? BWD_DATA + 1 : PARTS : 0, st = handles(c), err;
  for (p = cop->convs; p; p = p->next)
    if (p->samples == c->w.n) return st;
  if (st) return st;
  p = calloc(1, sizeof *p);
  if (!p) return nnc_fail(c, op, SP_E_NOMEM, "out of memory for a convolution");
  p->samples = c->w.n;
  err = describe(c, op, p);
  if (err) st = nnc_fail(c, op, SP_E_UNSUPPORTED, cudnnGetErrorString((cudnnStatus_t)err));
  for (int part = 0; part < PARTS && !st; part++) {
    args r = {.c = c, .p = p, .part = part, .w = weight(c, op)};
    if (part >= parts && part != part_forward(op)) continue;
    r.from = part == BWD_DATA ? b : a;
    if (part == BWD_WEIGHTS) r.w = b;
    r.to = part == FWD ? b : part == BWD_DATA ? a : g;
    st = choose(c, op, &r);
    p->algo[part] = r.algo;
  }
  if (st) {
    nnc_conv_free(p);
    return st;
  }
  p->next = cop->convs;
  cop->convs = p;
  return SP_OK;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
static int call(nnc_call *c, const nn_xop *op, args *a) {
  int err, st = handles(c);
  const nn_dconv *p = nnc_cop(c, op)->convs;
  while (p && p->samples != c->w.n) p = p->next;
  if (st) return st;
  if (!p) return nnc_fail(c, op, SP_E_STATE, "a batch of this size was not prepared");
  a->c = c;
  a->p = p;
  a->algo = p->algo[a->part];
  err = run(a);
  return err ? nnc_fail(c, op, SP_E_DEVICE, cudnnGetErrorString((cudnnStatus_t)err)) : SP_OK;
}

int nnc_conv_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out);
  const float *bias = op->d.bias ? nnc_weight(c, op->d.w + 1) : NULL;
  args a = {.part = part_forward(op), .from = nnc_data(c, op->in).p, .w = weight(c, op), .to = y.p};
  int st = call(c, op, &a);
  if (st || !(bias || op->d.relu)) return st;
  return nnc_check(c, op, nnk_bias_relu(c->stream, &y, &y, bias, op->d.relu));
}

/* Into float32 gradients cuDNN adds by itself; scaled ones, and those of bfloat16, come by way of tmp. */
static int weight_grad(nnc_call *c, const nn_xop *op, nnk_sum g) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  int64_t count = weights_of(&c->cuda->low, op);
  float *sum = (float *)c->w.tmp;
  void *given = c->w.tmp + nn_align((size_t)count * sizeof(float));
  args a = {.part = BWD_WEIGHTS, .from = transposed(op) ? dy.p : x.p, .w = transposed(op) ? x.p : dy.p};
  int st;
  if (x.elt == NN_F32 && !g.scale) {
    a.to = g.p;
    a.add = g.add;
    return call(c, op, &a);
  }
  a.to = x.elt == NN_F32 ? (void *)sum : given;
  st = call(c, op, &a);
  if (!st && x.elt != NN_F32) {
    nnk_map src = {given, x.elt, 0, 1, count, 1, 1}, dst = {sum, NNK_F32, 0, 1, count, 1, 1};
    st = nnc_check(c, op, nnk_copy(c->stream, &dst, &src, 0));
  }
  return st ? st : nnc_check(c, op, nnk_axpy(c->stream, g, sum, count));
}

int nnc_conv_backward(nnc_call *c, const nn_xop *op) {
  args a = {.part = part_data(op), .from = nnc_grad(c, op->out).p, .w = weight(c, op)};
  nnc_into in;
  nnk_sum g;
  int st = SP_OK;
  nnc_din(c, op->in, &in);
  if (in.dx) {
    a.to = in.dx->p;
    a.add = in.add;
    st = call(c, op, &a);
    if (!st && in.mask) st = nnc_check(c, op, nnc_mask(c, op->in, in.dx, in.dx, in.mask));
  }
  if (!st) st = nnc_bias_grad(c, op);
  g = nnc_grad_of(c, op->d.w);
  return st || !g.p ? st : weight_grad(c, op, g);
}
