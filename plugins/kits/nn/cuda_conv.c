/* SPDX-License-Identifier: MIT
 * cuda_conv.c - convolutions of any kernel, and their transposes, through cuDNN, channels-last.
 *
 * A transposed convolution runs the parts of the convolution that it transposes: its input is that one's result. Only
 * algorithms that give the same bits every time are candidates; prepare() measures them, and the choice is kept. In a frozen
 * network a forward's candidates are also cuDNN's own bias, sum and ReLU in the same call, and its time includes what of
 * these is a pass behind it; and of a convolution of images our own kernel. Forwards and gradients of weights are also products
 * (cuda_taps.c).
 *
 * A convolution with dilation is also one without, of more and smaller maps: every so many rows and columns of a map are one.
 * In TF32 cuDNN 9.14 takes 250 to 490 ms for what the other way takes 1.2. */
#include "cuda_lt.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cuDNN marks these functions in favour of graphs of its own making, which cannot be named by one number in a file. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum part { FWD, BWD_DATA, BWD_WEIGHTS, PARTS };
/* What is not cuDNN's, of all samples: a kernel, with bias and ReLU; cuda_taps.c, all places at a time or one by one. */
enum own { NONE, KERNEL, TAPS, EACH_TAP };

/* An algorithm may ask for more workspace than a lane has, the more the more samples: it is then run a slice at a time. */
typedef struct slices {
  int algo;
  int fused, apart; /* with bias, sum and ReLU; as nn_dconv.apart has it */
  enum own own;
  int64_t n;                      /* samples of a slice; the last one has the rest */
  cudnnTensorDescriptor_t a, b;   /* of the convolution a -> b: n samples */
  cudnnTensorDescriptor_t ra, rb; /* the rest; NULL: none */
} slices;

struct nn_dconv {
  nn_dconv *next;
  nn_dconv *apart; /* without dilation, of smaller maps; NULL: no candidate */
  nnk_map a, b;    /* of the convolution a -> b, without a place */
  int pad[2], dil[2];
  slices by[PARTS];
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  cudnnTensorDescriptor_t bias; /* NULL: cuDNN's call with bias and ReLU is no candidate */
  cudnnActivationDescriptor_t act;
  cublasLtMatmulAlgo_t products[PARTS]; /* of TAPS and EACH_TAP */
};

typedef struct args {
  nnc_call *c;
  const nn_xop *op;
  nn_dconv *p;
  int part, add;
  const void *from, *w; /* FWD: a. BWD_DATA: b. BWD_WEIGHTS: a, and w is b */
  void *to;
  nnk_sum sum;     /* BWD_WEIGHTS, own: in place of `to` */
  char *work;      /* as work_bytes() says */
  nnk_map y, plus; /* forward: the result, and what is added to it; p NULL: nothing */
} args;

static int transposed(const nn_xop *op) { return op->d.kind == NN_OP_CONVT; }
static int part_forward(const nn_xop *op) { return transposed(op) ? BWD_DATA : FWD; }
static int part_data(const nn_xop *op) { return transposed(op) ? FWD : BWD_DATA; }

static int64_t weights_of(const nn_low *low, const nn_xop *op) {
  return (int64_t)(nn_weight_bytes(low, op->d.w) / sizeof(float));
}

static void shapes(const nn_low *low, const nn_xop *op, int64_t n, nnk_map *a, nnk_map *b) {
  *a = nnc_map(&low->vals[transposed(op) ? op->out : op->in], n);
  *b = nnc_map(&low->vals[transposed(op) ? op->in : op->out], n);
}

static size_t sample_bytes(const nnk_map *m) { return (size_t)(m->c * m->h * m->w) * (m->elt == NNK_F32 ? 4 : 2); }
static size_t map_bytes(const nnk_map *m) { return (size_t)m->n * sample_bytes(m); }

/* The maps that a and b are apart; whether that is a candidate. */
static int lie_apart(const nn_xop *op, const nnk_map *a, const nnk_map *b, nnk_map *apart_a, nnk_map *apart_b) {
  const nn_op *d = &op->d;
  nnk_lattice l = nnk_lattice_of(d->dil, a, b);
  if ((d->dil[0] == 1 && d->dil[1] == 1) || d->s[0] > 1 || d->s[1] > 1 || d->p[0] % d->dil[0] || d->p[1] % d->dil[1])
    return 0;
  *apart_a = nnk_apart(a, l);
  *apart_b = nnk_apart(b, l);
  return map_bytes(apart_a) <= 2 * map_bytes(a) && map_bytes(apart_b) <= 2 * map_bytes(b);
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
  if (lie_apart(op, &a, &b, &apart_a, &apart_b)) both = nn_align(map_bytes(&apart_a)) + nn_align(map_bytes(&apart_b));
  return both > taps ? both : taps;
}

void nnc_conv_size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  nn_low *low = &cuda->low;
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  size_t sum = nn_align((size_t)weights_of(low, op) * sizeof(float)), work = work_bytes(low, op);
  cuda->cops[op - low->ops].off_cast = nnc_fixed(cuda, in->elt != NN_F32 ? sum : 0);
  cuda->cops[op - low->ops].off_narrow = nnc_fixed(cuda, in->elt != NN_F32 && low->frozen ? (size_t)out->c * 2 : 0);
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

static int cut(nn_dconv *p, int part, int64_t n) {
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
  if (!c->cuda->low.frozen || transposed(op) || !nnc_has_bias(op)) return 0;
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

/* ---- running ----------------------------------------------------------------------------------------------------- */
static const char *from_sample(const void *p, const nnk_map *m, int64_t first) {
  return (const char *)p + sample_bytes(m) * (size_t)first;
}

static const void *fused_bias(const args *a) {
  if (a->y.elt == NNK_F32) return nnc_product_bias(a->c, a->op);
  return a->c->fixed + nnc_cop(a->c, a->op)->off_narrow;
}

static int run_fused(const args *a, int64_t first, cudnnTensorDescriptor_t da, cudnnTensorDescriptor_t db) {
  const nn_dconv *p = a->p;
  const slices *s = &p->by[FWD];
  const float one = 1, sums = a->plus.p ? 1 : 0;
  void *to = (char *)a->to + sample_bytes(&p->b) * (size_t)first;
  const void *z = a->plus.p ? (const void *)from_sample(a->plus.p, &p->b, first) : to;
  return (int)cudnnConvolutionBiasActivationForward(a->c->cudnn, &one, da, from_sample(a->from, &p->a, first), p->w,
                                                    a->w, p->conv, (cudnnConvolutionFwdAlgo_t)s->algo, a->c->workspace,
                                                    a->c->cuda->ext->workspace_bytes, &sums, db, z, p->bias,
                                                    fused_bias(a), p->act, db, to);
}

static nnk_map placed(nnk_map m, const void *p) {
  m.p = (void *)(uintptr_t)p;
  return m;
}

/* ---- what is not cuDNN's ----------------------------------------------------------------------------------------- */
static int has_kernel(const args *a) {
  const nn_op *d = &a->op->d;
  const nn_low *low = &a->c->cuda->low;
  nnk_map x = nnc_map(&low->vals[a->op->in], a->p->a.n), y = nnc_map(&low->vals[a->op->out], a->p->a.n);
  if (a->part != FWD || transposed(a->op) || !low->frozen || d->n_more || d->groups > 1 || d->dil[0] > 1 ||
      d->dil[1] > 1)
    return 0;
  return nnk_first(&y, &x, d->k, d->s, d->p);
}

static int run_kernel(const args *a) {
  const nn_op *d = &a->op->d;
  nnk_map x = nnc_map(&a->c->cuda->low.vals[a->op->in], a->p->a.n);
  x.p = (void *)(uintptr_t)a->from;
  return nnk_first_forward(a->c->stream, &a->y, &x, d->k[0], a->w, nnc_product_bias(a->c, a->op), d->relu);
}

static int has_taps(const args *a) {
  return a->part != BWD_DATA && nnc_taps_work(&a->c->cuda->low, a->op, a->p->a.n, a->part == FWD) > 0;
}

static nnc_taps taps_of(const args *a) {
  nnc_taps t = {.c = a->c,
                .op = a->op,
                .x = placed(a->p->a, a->from),
                .work = a->work,
                .each = a->p->by[a->part].own == EACH_TAP,
                .algo = a->p->products[a->part]};
  t.y = placed(a->p->b, a->part == FWD ? a->to : a->w);
  if (a->part == FWD) t.w = a->w;
  else t.g = a->sum;
  return t;
}

/* 0, or what went wrong, as cuDNN's. */
static int run_own(const args *a) {
  nnc_taps t;
  int err;
  if (a->p->by[a->part].own == KERNEL) err = run_kernel(a);
  else {
    t = taps_of(a);
    err = nnc_taps_run(&t);
  }
  return err ? CUDNN_STATUS_EXECUTION_FAILED : 0;
}

/* ---- cuDNN's ----------------------------------------------------------------------------------------------------- */
/* The slice whose first sample is `first`. */
static int run_slice(const args *a, int64_t first, int add) {
  const nn_dconv *p = a->p;
  const slices *s = &p->by[a->part];
  int whole = first + s->n <= p->a.n;
  cudnnTensorDescriptor_t da = whole ? s->a : s->ra, db = whole ? s->b : s->rb;
  const float one = 1, zero = 0, *beta = add ? &one : &zero;
  void *ws = a->c->workspace, *to = a->to;
  size_t bytes = a->c->cuda->ext->workspace_bytes;
  const char *from = from_sample(a->from, a->part == BWD_DATA ? &p->b : &p->a, first);
  switch (a->part) {
    case FWD:
      if (s->fused) return run_fused(a, first, da, db);
      to = (char *)to + sample_bytes(&p->b) * (size_t)first;
      return (int)cudnnConvolutionForward(a->c->cudnn, &one, da, from, p->w, a->w, p->conv,
                                          (cudnnConvolutionFwdAlgo_t)s->algo, ws, bytes, beta, db, to);
    case BWD_DATA:
      to = (char *)to + sample_bytes(&p->a) * (size_t)first;
      return (int)cudnnConvolutionBackwardData(a->c->cudnn, &one, p->w, a->w, db, from, p->conv,
                                               (cudnnConvolutionBwdDataAlgo_t)s->algo, ws, bytes, beta, da, to);
    default:
      return (int)cudnnConvolutionBackwardFilter(a->c->cudnn, &one, da, from, db, from_sample(a->w, &p->b, first),
                                                 p->conv, (cudnnConvolutionBwdFilterAlgo_t)s->algo, ws, bytes, beta,
                                                 p->w, to);
  }
}

static int run_slices(const args *a) {
  int err = 0;
  for (int64_t first = 0; first < a->p->a.n && !err; first += a->p->by[a->part].n)
    err = run_slice(a, first, a->add || (a->part == BWD_WEIGHTS && first));
  return err;
}

/* ---- maps apart -------------------------------------------------------------------------------------------------- */
static int to_batch(const args *a, const nnk_map *apart, const nnk_map *m, const void *from, char *to) {
  nnk_map dst = placed(*apart, to), src = placed(*m, from);
  return nnk_space_to_batch(a->c->stream, &dst, &src, nnk_lattice_of(a->op->d.dil, &a->p->a, &a->p->b));
}

/* What cuDNN is to do: *a itself, or the same of maps that lie apart, which are made for it. */
static int enter(const args *a, args *in) {
  const nn_dconv *p = a->p;
  int data = a->part == BWD_DATA, err;
  char *of_a = a->work, *of_b;
  *in = *a;
  if (!p->by[a->part].apart) return 0;
  in->p = p->apart;
  of_b = of_a + nn_align(map_bytes(&in->p->a));
  in->from = data ? of_b : of_a;
  err = data ? to_batch(a, &in->p->b, &p->b, a->from, of_b) : to_batch(a, &in->p->a, &p->a, a->from, of_a);
  if (a->part == BWD_WEIGHTS) {
    in->w = of_b;
    return err ? err : to_batch(a, &in->p->b, &p->b, a->w, of_b);
  }
  in->to = data ? of_a : of_b;
  in->add = 0;
  return err;
}

static int leave(const args *a, const args *in) {
  const nn_dconv *p = a->p;
  int data = a->part == BWD_DATA;
  nnk_map dst = placed(data ? p->a : p->b, a->to), src = placed(data ? in->p->a : in->p->b, in->to);
  if (in->p == p || a->part == BWD_WEIGHTS) return 0;
  return nnk_batch_to_space(a->c->stream, &dst, &src, nnk_lattice_of(a->op->d.dil, &p->a, &p->b), a->add);
}

static int run(void *arg) {
  const args *a = arg;
  args in;
  int err;
  if (a->p->by[a->part].own) return run_own(a);
  if (enter(a, &in)) return CUDNN_STATUS_EXECUTION_FAILED;
  if ((err = run_slices(&in))) return err;
  return leave(a, &in) ? CUDNN_STATUS_EXECUTION_FAILED : 0;
}

/* How this part is run by cuDNN. */
static nn_dconv *cudnn_plan(const args *a) { return a->p->by[a->part].apart ? a->p->apart : a->p; }

/* What comes behind a forward that is not fused; a cudaError_t. */
static int run_pass(const args *a) {
  const float *bias = nnc_product_bias(a->c, a->op);
  enum own own = a->p->by[a->part].own;
  int done = own ? own == KERNEL : cudnn_plan(a)->by[a->part].fused;
  if (done || !(bias || a->op->d.relu || a->plus.p)) return 0;
  return nnk_bias_relu(a->c->stream, &a->y, &a->y, bias, a->plus.p ? &a->plus : NULL, a->op->d.relu);
}

static int run_whole(void *arg) {
  const args *a = arg;
  int err = run(arg);
  return err || !a->y.p || !a->c->cuda->low.frozen ? err : run_pass(a);
}

/* Can it be run at all, within the workspace, and with the same bits every time? */
static int fits(const args *a, int algo, cudnnTensorDescriptor_t da, cudnnTensorDescriptor_t db) {
  const nn_dconv *p = cudnn_plan(a);
  size_t bytes = 0;
  cudnnStatus_t st;
  switch (a->part) {
    case FWD:
      st = cudnnGetConvolutionForwardWorkspaceSize(a->c->cudnn, da, p->w, p->conv, db, (cudnnConvolutionFwdAlgo_t)algo,
                                                   &bytes);
      break;
    case BWD_DATA:
      if (algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0) return 0;
      st = cudnnGetConvolutionBackwardDataWorkspaceSize(a->c->cudnn, p->w, db, p->conv, da,
                                                        (cudnnConvolutionBwdDataAlgo_t)algo, &bytes);
      break;
    default:
      if (algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3) return 0;
      st = cudnnGetConvolutionBackwardFilterWorkspaceSize(a->c->cudnn, da, db, p->conv, p->w,
                                                          (cudnnConvolutionBwdFilterAlgo_t)algo, &bytes);
  }
  return !st && bytes <= a->c->cuda->ext->workspace_bytes;
}

static int usable(const args *a, int algo) {
  const slices *s = &cudnn_plan(a)->by[a->part];
  return fits(a, algo, s->a, s->b) && (!s->ra || fits(a, algo, s->ra, s->rb));
}

static const int counts[PARTS] = {CUDNN_CONVOLUTION_FWD_ALGO_COUNT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                                  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT};

static const char *const own_words[] = {"", "own", "places ", "each "};

static enum own own_of(const char *text) {
  for (enum own i = KERNEL; i <= EACH_TAP; i++)
    if (strncmp(text, own_words[i], strlen(own_words[i])) == 0) return i;
  return NONE;
}

static int take_own(const args *a, const char *text) {
  cublasLtMatmulAlgo_t *algo = &a->p->products[a->part];
  if (a->p->by[a->part].own == KERNEL) return has_kernel(a);
  return has_taps(a) && !nnc_unhex(algo->data, strchr(text, ' ') + 1, sizeof algo->data);
}

/* cuDNN's call with bias, sum and ReLU has no sum of maps that lie apart. */
static int can_fuse(const args *a) { return a->part == FWD && a->p->bias && !(a->p->by[FWD].apart && a->plus.p); }

/* "1": algorithm 1 for all samples; "1/8": for 8 at a time; "f1", "f1/8": with bias, sum and ReLU; "a1", "af1/8": of maps
 * that lie apart; "own"; "places DIGITS", "each DIGITS": by that algorithm of cuBLASLt. */
static int take(void *arg, const char *text) {
  args *a = arg;
  slices *s = &a->p->by[a->part];
  char *end;
  int fused;
  s->own = own_of(text);
  s->apart = !s->own && *text == 'a';
  if (s->own) return take_own(a, text);
  if (s->apart && !a->p->apart) return 0;
  text += s->apart;
  fused = *text == 'f';
  if (fused && !can_fuse(a)) return 0;
  text += fused;
  long algo = strtol(text, &end, 10);
  nn_dconv *p = cudnn_plan(a);
  int64_t n = p->a.n;
  if (end == text || algo < 0 || algo >= counts[a->part]) return 0;
  if (*end == '/') n = strtoll(end + 1, &end, 10);
  if (*end || n < 1 || n > p->a.n || cut(p, a->part, n)) return 0;
  p->by[a->part].algo = (int)algo;
  p->by[a->part].fused = fused;
  return usable(a, (int)algo);
}

/* Whether one is faster for slices of n samples: its time and text, as take() reads it. */
static int fastest(args *a, int64_t n, int found, double *ms, char *text, size_t bytes) {
  nn_dconv *p = cudnn_plan(a);
  slices *s = &p->by[a->part];
  int ways = can_fuse(a) ? 2 : 1, any = 0;
  if (cut(p, a->part, n)) return 0;
  for (int i = 0; i < counts[a->part] * ways; i++) {
    s->algo = i / ways;
    s->fused = i % ways;
    if (!usable(a, s->algo)) continue;
    double t = nnc_measure(a->c, run_whole, a);
    if (t < 0) continue;
    any = 1;
    if (found && t >= *ms) continue;
    *ms = t;
    found = 1;
    int at = snprintf(text, bytes, "%s%s%d", p != a->p ? "a" : "", s->fused ? "f" : "", s->algo);
    if (n < p->a.n) snprintf(text + at, bytes - (size_t)at, "/%lld", (long long)n);
  }
  return any;
}

/* cuDNN's, in slices as large as can be run. */
static int try_cudnn(args *a, int apart, int found, double *ms, char *text, size_t bytes) {
  slices *s = &a->p->by[a->part];
  int any;
  s->own = NONE;
  s->apart = apart;
  int64_t n = cudnn_plan(a)->a.n;
  while (!(any = fastest(a, n, found, ms, text, bytes)) && n > 1) n = (n + 1) / 2;
  s->apart = 0;
  return found || any;
}

/* Measures what is not cuDNN's: is it the fastest? */
static int is_faster(args *a, enum own own, int found, double *ms) {
  double t;
  a->p->by[a->part].own = own;
  t = nnc_measure(a->c, run_whole, a);
  a->p->by[a->part].own = NONE;
  if (t < 0 || (found && t >= *ms)) return 0;
  *ms = t;
  return 1;
}

static int try_kernel(args *a, int found, double *ms, char *text, size_t bytes) {
  if (!is_faster(a, KERNEL, found, ms)) return found;
  snprintf(text, bytes, "%s", own_words[KERNEL]);
  return 1;
}

static int try_taps(args *a, enum own how, int found, double *ms, char *text, size_t bytes) {
  cublasLtMatmulHeuristicResult_t list[NNC_OFFERS];
  nnc_taps t = taps_of(a);
  t.each = how == EACH_TAP;
  int n = nnc_taps_offers(&t, list);
  for (int i = 0; i < n; i++) {
    if (list[i].state != CUBLAS_STATUS_SUCCESS || list[i].workspaceSize > a->c->cuda->ext->workspace_bytes) continue;
    a->p->products[a->part] = list[i].algo;
    if (!is_faster(a, how, found, ms)) continue;
    found = 1;
    snprintf(text, bytes, "%s", own_words[how]);
    nnc_hex(text + strlen(own_words[how]), list[i].algo.data, sizeof list[i].algo.data);
  }
  return found;
}

static int measure(void *arg, const char *key, char *text, size_t bytes) {
  args *a = arg;
  double ms = 0;
  int found = try_cudnn(a, 0, 0, &ms, text, bytes);
  if (a->p->apart) found = try_cudnn(a, 1, found, &ms, text, bytes);
  if (has_kernel(a)) found = try_kernel(a, found, &ms, text, bytes);
  for (enum own how = TAPS; how <= EACH_TAP && has_taps(a); how++) found = try_taps(a, how, found, &ms, text, bytes);
  if (!found) return nnc_no_choice(a->c, "cuDNN has no algorithm for", key);
  a->c->w.ctx->host->log(a->c->w.ctx, SP_LOG_DEBUG, "%s: %.2f us, algorithm %s", key, ms * 1e3, text);
  return SP_OK;
}

static int choose(nnc_call *c, const nn_xop *op, args *a) {
  static const char *const parts[] = {"forward", "data", "weights"}, *const precisions[] = {"fp32", "tf32", "bf16"};
  const nnk_map *x = &a->p->a, *y = &a->p->b;
  const nn_op *d = &op->d;
  char key[SP_CUDA_KEY_MAX], apart[96] = "";
  if (a->y.p && c->cuda->low.frozen)
    snprintf(apart, sizeof apart, " frozen%s%s%s", nnc_has_bias(op) ? " bias" : "", a->plus.p ? " map" : "",
             d->relu ? " relu" : "");
  if (d->groups > 1 || d->dil[0] > 1 || d->dil[1] > 1)
    snprintf(apart + strlen(apart), sizeof apart - strlen(apart), " d%dx%d g%d", d->dil[0], d->dil[1], d->groups);
  snprintf(key, sizeof key, "conv %s n%lld %lldx%lldx%lld to %lldx%lldx%lld k%dx%d s%dx%d p%dx%d%s %s ws%zu",
           parts[a->part], (long long)c->w.n, (long long)x->c, (long long)x->h, (long long)x->w, (long long)y->c,
           (long long)y->h, (long long)y->w, d->k[0], d->k[1], d->s[0], d->s[1], d->p[0], d->p[1], apart,
           precisions[c->cuda->precision], c->cuda->ext->workspace_bytes);
  return nnc_tuned(c, key, take, measure, a);
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
  char *a = transposed(op) ? y : x, *b = transposed(op) ? x : y;
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
    args r = {.c = c, .op = op, .p = p, .part = part, .w = weight(c, op)};
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
    st = choose(c, op, &r);
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
static int plan_of(nnc_call *c, const nn_xop *op, args *a) {
  int st = handles(c);
  a->c = c;
  a->op = op;
  a->work = c->w.tmp + grad_bytes(&c->cuda->low, op);
  a->p = nnc_cop(c, op)->convs;
  while (a->p && a->p->a.n != c->w.n) a->p = a->p->next;
  return st || a->p ? st : nnc_fail(c, op, SP_E_STATE, "a batch of this size was not prepared");
}

static int checked(const args *a, int err) {
  return err ? nnc_fail(a->c, a->op, SP_E_DEVICE, cudnnGetErrorString((cudnnStatus_t)err)) : SP_OK;
}

static int call(nnc_call *c, const nn_xop *op, args *a) {
  int st = plan_of(c, op, a);
  return st ? st : checked(a, run(a));
}

int nnc_conv_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out);
  args a = {.part = part_forward(op),
            .from = nnc_data(c, op->in).p,
            .w = weight(c, op),
            .to = y.p,
            .y = y,
            .plus = nnc_product_plus(c, op)};
  int st = call(c, op, &a);
  return st ? st : nnc_check(c, op, run_pass(&a));
}

/* The gradient comes as bfloat16; slices of it are added up as float32 first. */
static int grad_of_bf16(nnc_call *c, const nn_xop *op, args *whole_maps, nnk_sum g, int64_t count) {
  float *sum = (float *)c->w.tmp;
  args a;
  int st, whole;
  whole_maps->to = c->w.tmp + nn_align((size_t)count * sizeof(float));
  st = nnc_check(c, op, enter(whole_maps, &a));
  whole = a.p->by[BWD_WEIGHTS].n == a.p->a.n;
  for (int64_t first = 0; !st && first < a.p->a.n; first += a.p->by[BWD_WEIGHTS].n) {
    nnk_sum into = whole ? g : (nnk_sum){sum, NULL, first > 0};
    st = checked(&a, run_slice(&a, first, 0));
    if (!st) st = nnc_check(c, op, nnk_axpy(c->stream, into, NNK_BF16, a.to, count));
  }
  return st || whole ? st : nnc_check(c, op, nnk_axpy(c->stream, g, NNK_F32, sum, count));
}

/* Into float32 gradients cuDNN adds by itself; scaled ones, and those of bfloat16, come by way of tmp. */
static int weight_grad(nnc_call *c, const nn_xop *op, nnk_sum g) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  int64_t count = weights_of(&c->cuda->low, op);
  args a = {.part = BWD_WEIGHTS, .from = transposed(op) ? dy.p : x.p, .w = transposed(op) ? x.p : dy.p};
  int st = plan_of(c, op, &a);
  if (!st && a.p->by[BWD_WEIGHTS].own) {
    a.sum = g;
    return checked(&a, run_own(&a));
  }
  if (st || x.elt != NN_F32) return st ? st : grad_of_bf16(c, op, &a, g, count);
  a.to = g.scale ? c->w.tmp : (char *)g.p;
  a.add = !g.scale && g.add;
  st = call(c, op, &a);
  return st || !g.scale ? st : nnc_check(c, op, nnk_axpy(c->stream, g, NNK_F32, a.to, count));
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
  if (!st) st = nnc_plus_backward(c, op);
  if (!st) st = nnc_bias_grad(c, op);
  g = nnc_grad_of(c, op->d.w);
  return st || !g.p ? st : weight_grad(c, op, g);
}
