/* SPDX-License-Identifier: MIT
 * conv.c - convolutions of any kernel, and their transposes, through cuDNN, channels-last.
 *
 * A transposed convolution runs the parts of the convolution that it transposes: its input is that one's result. Only
 * algorithms that give the same bits every time are candidates; prepare() measures them, and the choice is kept. In a frozen
 * network a forward's candidates are also cuDNN's own bias, sum and ReLU in the same call, and its time includes what of
 * these is a pass behind it; and of a convolution of images, or of many channels, our own kernels. Forwards and
 * gradients of weights are also products (taps.c).
 *
 * A convolution with dilation is also one without, of more and smaller maps: every so many rows and columns of a map are one.
 * In TF32 cuDNN 9.14 takes 250 to 490 ms for what the other way takes 1.2. */
#include "conv.h"

#include <stdlib.h>

/* cuDNN marks these functions in favour of graphs of its own making, which cannot be named by one number in a file. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int part_forward(const nn_xop *op) { return nnc_conv_transposed(op) ? BWD_DATA : FWD; }
static int part_data(const nn_xop *op) { return nnc_conv_transposed(op) ? FWD : BWD_DATA; }

static int64_t weights_of(const nn_low *low, const nn_xop *op) {
  return (int64_t)(nn_weight_bytes(low, op->d.w) / sizeof(float));
}

static void shapes(const nn_low *low, const nn_xop *op, int64_t n, nnk_map *a, nnk_map *b) {
  *a = nnc_map(&low->vals[nnc_conv_transposed(op) ? op->out : op->in], n);
  *b = nnc_map(&low->vals[nnc_conv_transposed(op) ? op->in : op->out], n);
}

/* The maps that a and b are apart; whether that is a candidate. */
static int lie_apart(const nn_xop *op, const nnk_map *a, const nnk_map *b, nnk_map *apart_a, nnk_map *apart_b) {
  const nn_op *d = &op->d;
  nnk_lattice l = nnk_lattice_of(d->dil, a, b);
  if ((d->dil[0] == 1 && d->dil[1] == 1) || d->s[0] > 1 || d->s[1] > 1 || d->p[0] % d->dil[0] || d->p[1] % d->dil[1])
    return 0;
  *apart_a = nnk_apart(a, l);
  *apart_b = nnk_apart(b, l);
  return nnc_bytes(apart_a) <= 2 * nnc_bytes(a) && nnc_bytes(apart_b) <= 2 * nnc_bytes(b);
}

/* Gradients of the weights as cuDNN gives them, and as float32. */
static size_t grad_bytes(const nn_low *low, const nn_xop *op) {
  return low->training ? 2 * nn_align((size_t)weights_of(low, op) * sizeof(float)) : 0;
}

static size_t work_bytes(const nn_low *low, const nn_xop *op) {
  nnk_map a, b, apart_a, apart_b;
  size_t forward = nnc_taps_work(low, op, low->batch, 1), both = 0;
  size_t taps = low->training && !forward ? nnc_taps_work(low, op, low->batch, 0) : forward;
  shapes(low, op, low->batch, &a, &b);
  if (lie_apart(op, &a, &b, &apart_a, &apart_b)) both = nn_align(nnc_bytes(&apart_a)) + nn_align(nnc_bytes(&apart_b));
  return both > taps ? both : taps;
}

void nnc_conv_size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  nn_low *low = &cuda->low;
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  size_t sum = nn_align((size_t)weights_of(low, op) * sizeof(float)), work = work_bytes(low, op);
  cuda->cops[op - low->ops].off_cast = nnc_fixed(cuda, in->elt != NN_F32 ? sum : 0);
  cuda->cops[op - low->ops].off_narrow = nnc_fixed(cuda, in->elt != NN_F32 && low->frozen ? (size_t)out->c * 2 : 0);
  nnc_wide_size(cuda, op);
  op->tmp = grad_bytes(low, op) + work;
  *arena = nn_align(nnc_map_bytes(in, low->batch)) + nn_align(nnc_map_bytes(out, low->batch)) + sum + work;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */
static void free_slices(slices *s) {
  cudnnTensorDescriptor_t *all[] = {&s->a, &s->b, &s->ra, &s->rb};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (*all[i]) cudnnDestroyTensorDescriptor(*all[i]);
    *all[i] = NULL;
  }
}

void nnc_conv_free(nn_dconv *p) {
  while (p) {
    nn_dconv *next = p->next;
    for (int part = 0; part < PARTS; part++) free_slices(&p->by[part]);
    if (p->w) cudnnDestroyFilterDescriptor(p->w);
    if (p->conv) cudnnDestroyConvolutionDescriptor(p->conv);
    if (p->bias) cudnnDestroyTensorDescriptor(p->bias);
    if (p->act) cudnnDestroyActivationDescriptor(p->act);
    nnc_conv_free(p->apart);
    free(p);
    p = next;
  }
}

static cudnnDataType_t type_of(const nnk_map *m) { return m->elt == NNK_F32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16; }

static int tensor(cudnnTensorDescriptor_t *t, const nnk_map *m, int64_t n) {
  int st = (int)cudnnCreateTensorDescriptor(t);
  if (st) return st;
  return (int)cudnnSetTensor4dDescriptor(*t, CUDNN_TENSOR_NHWC, type_of(m), (int)n, (int)m->c, (int)m->h, (int)m->w);
}

int nnc_conv_cut(nn_dconv *p, int part, int64_t n) {
  slices *s = &p->by[part];
  int64_t rest = p->a.n % n;
  int st;
  free_slices(s);
  s->n = n;
  if ((st = tensor(&s->a, &p->a, n)) || (st = tensor(&s->b, &p->b, n)) || !rest) return st;
  return (st = tensor(&s->ra, &p->a, rest)) ? st : tensor(&s->rb, &p->b, rest);
}

/* cuDNN's call with bias, sum and ReLU; it takes a bias of the maps' type. */
static int describe_fused(const nnc_call *c, const nn_xop *op, nn_dconv *p) {
  cudnnActivationMode_t mode = op->d.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY;
  int st;
  if (!c->cuda->low.frozen || nnc_conv_transposed(op) || !nnc_has_bias(op)) return 0;
  if ((st = (int)cudnnCreateTensorDescriptor(&p->bias))) return st;
  st = (int)cudnnSetTensor4dDescriptor(p->bias, CUDNN_TENSOR_NHWC, type_of(&p->b), 1, (int)p->b.c, 1, 1);
  if (st || (st = (int)cudnnCreateActivationDescriptor(&p->act))) return st;
  return (int)cudnnSetActivationDescriptor(p->act, mode, CUDNN_PROPAGATE_NAN, 0);
}

static int describe(const nnc_call *c, const nn_xop *op, nn_dconv *p) {
  cudnnMathType_t math = c->cuda->precision == SP_PRECISION_FP32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  const nnk_map *a = &p->a, *b = &p->b;
  const int *k = op->d.k, *s = op->d.s, groups = op->d.groups;
  int st;
  if ((st = (int)cudnnCreateFilterDescriptor(&p->w))) return st;
  st = (int)cudnnSetFilter4dDescriptor(p->w, type_of(a), CUDNN_TENSOR_NHWC, (int)b->c, (int)a->c / groups, k[0], k[1]);
  if (st || (st = (int)cudnnCreateConvolutionDescriptor(&p->conv))) return st;
  st = (int)cudnnSetConvolution2dDescriptor(p->conv, p->pad[0], p->pad[1], s[0], s[1], p->dil[0], p->dil[1],
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  if (!st && groups > 1) st = (int)cudnnSetConvolutionGroupCount(p->conv, groups);
  if (!st) st = (int)cudnnSetConvolutionMathType(p->conv, math);
  return st ? st : describe_fused(c, op, p);
}

static nn_dconv *new_conv(const nnc_call *c, const nn_xop *op) {
  nn_dconv *p = calloc(1, sizeof *p), *apart;
  nnk_map a, b;
  if (!p) return NULL;
  shapes(&c->cuda->low, op, c->w.n, &p->a, &p->b);
  for (int i = 0; i < 2; i++) {
    p->pad[i] = op->d.p[i];
    p->dil[i] = op->d.dil[i];
  }
  if (!lie_apart(op, &p->a, &p->b, &a, &b)) return p;
  if (!(apart = p->apart = calloc(1, sizeof *apart))) {
    nnc_conv_free(p);
    return NULL;
  }
  apart->a = a;
  apart->b = b;
  for (int i = 0; i < 2; i++) {
    apart->pad[i] = p->pad[i] / p->dil[i];
    apart->dil[i] = 1;
  }
  return p;
}

static int handles(nnc_call *c) {
  int st = c->cudnn ? SP_OK : c->cuda->ext->cudnn(c->w.ctx, &c->cudnn);
  return st ? st : nnc_taps_handle(c);
}

static const void *weight(const nnc_call *c, const nn_xop *op) {
  if (c->cuda->low.vals[op->in].elt == NN_F32) return nnc_product_weight(c, op);
  return c->fixed + nnc_cop(c, op)->off_cast;
}

int nnc_conv_prepare(nnc_call *c, const nn_xop *op) {
  const nn_low *low = &c->cuda->low;
  nn_cop *cop = &c->cuda->cops[nnc_index(c, op)];
  char *x = c->w.tmp, *y = x + nn_align(nnc_map_bytes(&low->vals[op->in], c->w.n));
  char *g = y + nn_align(nnc_map_bytes(&low->vals[op->out], c->w.n));
  char *a = nnc_conv_transposed(op) ? y : x, *b = nnc_conv_transposed(op) ? x : y;
  nn_dconv *p;
  int parts = low->training ? low->frozen ? BWD_DATA + 1 : PARTS : 0, st = handles(c), err;
  for (p = cop->convs; p; p = p->next)
    if (p->a.n == c->w.n) return st;
  if (st) return st;
  p = new_conv(c, op);
  if (!p) return nnc_fail(c, op, SP_E_NOMEM, "out of memory for a convolution");
  err = describe(c, op, p);
  if (!err && p->apart) err = describe(c, op, p->apart);
  if (err) st = nnc_fail(c, op, SP_E_UNSUPPORTED, cudnnGetErrorString((cudnnStatus_t)err));
  for (int part = 0; part < PARTS && !st; part++) {
    nnc_conv r = {.c = c, .op = op, .p = p, .part = part, .w = weight(c, op)};
    if (part >= parts && part != part_forward(op)) continue;
    r.from = part == BWD_DATA ? b : a;
    r.work = g + nn_align((size_t)weights_of(low, op) * sizeof(float));
    if (part == BWD_WEIGHTS) {
      r.w = b;
      r.sum.p = (float *)g;
    }
    r.to = part == FWD ? b : part == BWD_DATA ? a : g;
    if (part == part_forward(op)) {
      r.y = nnc_map(&low->vals[op->out], c->w.n);
      r.y.p = y;
      if (op->d.n_more) r.plus = r.y;
    }
    st = nnc_conv_choose(c, op, &r);
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
static int plan_of(nnc_call *c, const nn_xop *op, nnc_conv *a) {
  int st = handles(c);
  a->c = c;
  a->op = op;
  a->work = c->w.tmp + grad_bytes(&c->cuda->low, op);
  a->p = nnc_cop(c, op)->convs;
  while (a->p && a->p->a.n != c->w.n) a->p = a->p->next;
  return st || a->p ? st : nnc_fail(c, op, SP_E_STATE, "a batch of this size was not prepared");
}

static int checked(const nnc_conv *a, int err) {
  return err ? nnc_fail(a->c, a->op, SP_E_DEVICE, cudnnGetErrorString((cudnnStatus_t)err)) : SP_OK;
}

static int call(nnc_call *c, const nn_xop *op, nnc_conv *a) {
  int st = plan_of(c, op, a);
  return st ? st : checked(a, nnc_conv_run(a));
}

int nnc_conv_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out);
  nnc_conv a = {.part = part_forward(op),
                .from = nnc_data(c, op->in).p,
                .w = weight(c, op),
                .to = y.p,
                .y = y,
                .plus = nnc_product_plus(c, op)};
  int st = call(c, op, &a);
  return st ? st : nnc_check(c, op, nnc_conv_run_pass(&a));
}

/* The gradient comes as bfloat16; slices of it are added up as float32 first. */
static int grad_of_bf16(nnc_call *c, const nn_xop *op, nnc_conv *whole_maps, nnk_sum g, int64_t count) {
  float *sum = (float *)c->w.tmp;
  nnc_conv a;
  int st, whole;
  whole_maps->to = c->w.tmp + nn_align((size_t)count * sizeof(float));
  st = nnc_check(c, op, nnc_conv_enter(whole_maps, &a));
  whole = a.p->by[BWD_WEIGHTS].n == a.p->a.n;
  for (int64_t first = 0; !st && first < a.p->a.n; first += a.p->by[BWD_WEIGHTS].n) {
    nnk_sum into = whole ? g : (nnk_sum){sum, NULL, first > 0};
    st = checked(&a, nnc_conv_run_slice(&a, first, 0));
    if (!st) st = nnc_check(c, op, nnk_axpy(c->stream, into, NNK_BF16, a.to, count));
  }
  return st || whole ? st : nnc_check(c, op, nnk_axpy(c->stream, g, NNK_F32, sum, count));
}

/* Into float32 gradients cuDNN adds by itself; scaled ones, and those of bfloat16, come by way of tmp. */
static int weight_grad(nnc_call *c, const nn_xop *op, nnk_sum g) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  int64_t count = weights_of(&c->cuda->low, op);
  nnc_conv a = {
      .part = BWD_WEIGHTS, .from = nnc_conv_transposed(op) ? dy.p : x.p, .w = nnc_conv_transposed(op) ? x.p : dy.p};
  int st = plan_of(c, op, &a);
  if (!st && a.p->by[BWD_WEIGHTS].own) {
    a.sum = g;
    return checked(&a, nnc_conv_run(&a));
  }
  if (st || x.elt != NN_F32) return st ? st : grad_of_bf16(c, op, &a, g, count);
  a.to = g.scale ? c->w.tmp : (char *)g.p;
  a.add = !g.scale && g.add;
  st = checked(&a, nnc_conv_run(&a));
  return st || !g.scale ? st : nnc_check(c, op, nnk_axpy(c->stream, g, NNK_F32, a.to, count));
}

int nnc_conv_backward(nnc_call *c, const nn_xop *op) {
  nnc_conv a = {.part = part_data(op), .from = nnc_grad(c, op->out).p, .w = weight(c, op)};
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
  if (!st) st = nnc_plus_backward(c, op);
  if (!st) st = nnc_bias_grad(c, op);
  g = nnc_grad_of(c, op->d.w);
  return st || !g.p ? st : weight_grad(c, op, g);
}
