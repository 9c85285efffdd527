/* SPDX-License-Identifier: MIT
 * cudnn.c - convolutions by cuDNN: any shape on any device, each algorithm a variant, with or without its own bias, sum
 * and ReLU in a frozen network, in slices where the workspace asks for that.
 *
 * A convolution with dilation is also one without, of more and smaller maps that lie apart: every so many rows and
 * columns of a map are one. In TF32 cuDNN 9.14 takes 250 to 490 ms for what the other way takes 1.2. */
#include "conv.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

/* cuDNN marks these functions in favour of graphs of its own making, which cannot be named by one number in a file. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* What goes wrong is a cudnnStatus_t, or a cudaError_t below 0. */
static const char *words(int err) {
  return err < 0 ? cudaGetErrorString((cudaError_t)-err) : cudnnGetErrorString((cudnnStatus_t)err);
}

static size_t sample_bytes(const nnk_map *m) { return (size_t)(m->c * m->h * m->w) * (m->elt == NNK_F32 ? 4 : 2); }
static size_t bytes_of(const nnk_map *m) { return (size_t)m->n * sample_bytes(m); }

/* The maps that a and b are apart; whether that is a candidate. */
static int lie_apart(const nn_xop *op, const nnk_map *a, const nnk_map *b, nnk_map *apart_a, nnk_map *apart_b) {
  const nn_op *d = &op->d;
  nnk_lattice l = nnk_lattice_of(d->dil, a, b);
  if ((d->dil[0] == 1 && d->dil[1] == 1) || d->s[0] > 1 || d->s[1] > 1 || d->p[0] % d->dil[0] || d->p[1] % d->dil[1])
    return 0;
  *apart_a = nnk_apart(a, l);
  *apart_b = nnk_apart(b, l);
  return bytes_of(apart_a) <= 2 * bytes_of(a) && bytes_of(apart_b) <= 2 * bytes_of(b);
}

/* These maps. */
static size_t work(const nn_cuda *cuda, const nn_xop *op, int64_t n) {
  nnk_map a, b, apart_a, apart_b;
  if (op->x != NN_X_CONV) return 0;
  nnc_conv_maps(&cuda->low, op, n, &a, &b);
  return lie_apart(op, &a, &b, &apart_a, &apart_b) ? nn_align(bytes_of(&apart_a)) + nn_align(bytes_of(&apart_b)) : 0;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */
static void free_slices(nnc_slices *s) {
  cudnnTensorDescriptor_t *all[] = {&s->a, &s->b, &s->ra, &s->rb};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (*all[i]) cudnnDestroyTensorDescriptor(*all[i]);
    *all[i] = NULL;
  }
}

static void close_dnn(nnc_dnn *dnn) {
  for (int part = 0; part < NNC_CONV_PARTS; part++) free_slices(&dnn->by[part]);
  if (dnn->w) cudnnDestroyFilterDescriptor(dnn->w);
  if (dnn->conv) cudnnDestroyConvolutionDescriptor(dnn->conv);
  if (dnn->bias) cudnnDestroyTensorDescriptor(dnn->bias);
  if (dnn->act) cudnnDestroyActivationDescriptor(dnn->act);
}

void nnc_dnn_close(nn_dconv *p) {
  close_dnn(&p->dnn);
  close_dnn(&p->apart);
}

static cudnnDataType_t type_of(const nnk_map *m) { return m->elt == NNK_F32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16; }

static int tensor(cudnnTensorDescriptor_t *t, const nnk_map *m, int64_t n) {
  int err = (int)cudnnCreateTensorDescriptor(t);
  if (err) return err;
  return (int)cudnnSetTensor4dDescriptor(*t, CUDNN_TENSOR_NHWC, type_of(m), (int)n, (int)m->c, (int)m->h, (int)m->w);
}

/* Describes slices of n samples. */
static int cut(nnc_dnn *dnn, int part, int64_t n) {
  nnc_slices *s = &dnn->by[part];
  int64_t rest = dnn->a.n % n;
  int err;
  free_slices(s);
  s->n = n;
  if ((err = tensor(&s->a, &dnn->a, n)) || (err = tensor(&s->b, &dnn->b, n)) || !rest) return err;
  return (err = tensor(&s->ra, &dnn->a, rest)) ? err : tensor(&s->rb, &dnn->b, rest);
}

/* cuDNN's call with bias, sum and ReLU; it takes a bias of the maps' type. */
static int describe_fused(const nnc_call *c, const nn_xop *op, nnc_dnn *dnn) {
  cudnnActivationMode_t mode = op->d.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY;
  int err;
  if (!c->cuda->low.frozen || nnc_conv_transposed(op) || !nnc_has_bias(op)) return 0;
  if ((err = (int)cudnnCreateTensorDescriptor(&dnn->bias))) return err;
  err = (int)cudnnSetTensor4dDescriptor(dnn->bias, CUDNN_TENSOR_NHWC, type_of(&dnn->b), 1, (int)dnn->b.c, 1, 1);
  if (err || (err = (int)cudnnCreateActivationDescriptor(&dnn->act))) return err;
  return (int)cudnnSetActivationDescriptor(dnn->act, mode, CUDNN_PROPAGATE_NAN, 0);
}

static int describe(const nnc_call *c, const nn_xop *op, nnc_dnn *dnn) {
  cudnnMathType_t math = c->cuda->precision == SP_PRECISION_FP32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  const nnk_map *a = &dnn->a, *b = &dnn->b;
  const int *k = op->d.k, *s = op->d.s, groups = op->d.groups;
  int err;
  if ((err = (int)cudnnCreateFilterDescriptor(&dnn->w))) return err;
  err =
      (int)cudnnSetFilter4dDescriptor(dnn->w, type_of(a), CUDNN_TENSOR_NHWC, (int)b->c, (int)a->c / groups, k[0], k[1]);
  if (err || (err = (int)cudnnCreateConvolutionDescriptor(&dnn->conv))) return err;
  err = (int)cudnnSetConvolution2dDescriptor(dnn->conv, dnn->pad[0], dnn->pad[1], s[0], s[1], dnn->dil[0], dnn->dil[1],
                                             CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  if (!err && groups > 1) err = (int)cudnnSetConvolutionGroupCount(dnn->conv, groups);
  if (!err) err = (int)cudnnSetConvolutionMathType(dnn->conv, math);
  return err ? err : describe_fused(c, op, dnn);
}

int nnc_dnn_open(const nnc_call *c, const nn_xop *op, nn_dconv *p) {
  int err;
  p->dnn.a = p->a;
  p->dnn.b = p->b;
  for (int i = 0; i < 2; i++) {
    p->dnn.pad[i] = op->d.p[i];
    p->dnn.dil[i] = op->d.dil[i];
    p->apart.pad[i] = op->d.p[i] / op->d.dil[i];
    p->apart.dil[i] = 1;
  }
  err = describe(c, op, &p->dnn);
  return err || !lie_apart(op, &p->a, &p->b, &p->apart.a, &p->apart.b) ? err : describe(c, op, &p->apart);
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */
enum { APART = 1, FUSED = 2 }; /* of nnc_choice.variant: maps that lie apart; with bias, sum and ReLU. algo[0]: which */

static nnc_dnn *dnn_of(const nnc_conv *a) { return a->job.by->variant & APART ? &a->p->apart : &a->p->dnn; }

static const int counts[NNC_CONV_PARTS] = {CUDNN_CONVOLUTION_FWD_ALGO_COUNT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                                           CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT};

/* Can it be run at all, within the workspace, and with the same bits every time? */
static int fits(const nnc_conv *a, cudnnTensorDescriptor_t da, cudnnTensorDescriptor_t db) {
  const nnc_dnn *dnn = dnn_of(a);
  const nnc_call *c = a->job.c;
  int algo = (int)a->job.by->algo[0];
  size_t bytes = 0;
  cudnnStatus_t err;
  switch (a->part) {
    case NNC_FWD:
      err = cudnnGetConvolutionForwardWorkspaceSize(c->cudnn, da, dnn->w, dnn->conv, db,
                                                    (cudnnConvolutionFwdAlgo_t)algo, &bytes);
      break;
    case NNC_BWD_DATA:
      if (algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0) return 0;
      err = cudnnGetConvolutionBackwardDataWorkspaceSize(c->cudnn, dnn->w, db, dnn->conv, da,
                                                         (cudnnConvolutionBwdDataAlgo_t)algo, &bytes);
      break;
    default:
      if (algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3) return 0;
      err = cudnnGetConvolutionBackwardFilterWorkspaceSize(c->cudnn, da, db, dnn->conv, dnn->w,
                                                           (cudnnConvolutionBwdFilterAlgo_t)algo, &bytes);
  }
  return !err && bytes <= c->cuda->ext->workspace_bytes;
}

static int usable(const nnc_conv *a) {
  const nnc_slices *s = &dnn_of(a)->by[a->part];
  return fits(a, s->a, s->b) && (!s->ra || fits(a, s->ra, s->rb));
}

/* The call with bias, sum and ReLU has no sum of maps that lie apart. */
static int can_fuse(const nnc_conv *a) {
  return a->part == NNC_FWD && a->p->dnn.bias && !(a->job.by->variant & APART && a->plus.p);
}

static void enter(nnc_choice *by, int apart, int fused, int algo) {
  by->variant = (apart ? APART : 0) | (fused ? FUSED : 0);
  by->does = fused ? NNC_BIAS | NNC_SUM | NNC_RELU : 0;
  by->algo[0] = (uint64_t)algo;
}

/* "1": algorithm 1 for all samples; "1/8": for 8 at a time; "f1", "f1/8": with bias, sum and ReLU; "a1", "af1/8": of
 * maps that lie apart. */
static int take(nnc_job *job, const char *text) {
  nnc_conv *a = (nnc_conv *)job;
  int apart = *text == 'a', fused = text[apart] == 'f';
  char *end;
  long algo;
  int64_t n;
  if (apart && !a->p->apart.w) return 0;
  enter(job->by, apart, fused, 0);
  if (fused && !can_fuse(a)) return 0;
  text += apart + fused;
  algo = strtol(text, &end, 10);
  n = dnn_of(a)->a.n;
  if (end == text || algo < 0 || algo >= counts[a->part]) return 0;
  if (*end == '/') n = strtoll(end + 1, &end, 10);
  if (*end || n < 1 || n > dnn_of(a)->a.n || cut(dnn_of(a), a->part, n)) return 0;
  enter(job->by, apart, fused, (int)algo);
  return usable(a);
}

/* All algorithms for slices of n samples; whether one can be run. */
static int offer_slices(nnc_conv *a, nnc_trial *trial, int apart, int64_t n) {
  nnc_dnn *dnn = dnn_of(a);
  int ways = can_fuse(a) ? 2 : 1, any = 0, at;
  char text[SP_CUDA_VALUE_MAX];
  if (cut(dnn, a->part, n)) return 0;
  for (int i = 0; i < counts[a->part] * ways; i++) {
    enter(a->job.by, apart, i % ways, i / ways);
    if (!usable(a)) continue;
    at = snprintf(text, sizeof text, "%s%s%d", apart ? "a" : "", i % ways ? "f" : "", i / ways);
    if (n < dnn->a.n) snprintf(text + at, sizeof text - (size_t)at, "/%lld", (long long)n);
    any |= nnc_try(trial, text);
  }
  return any;
}

/* In slices as large as can be run. */
static void offer(nnc_job *job, nnc_trial *trial) {
  nnc_conv *a = (nnc_conv *)job;
  for (int apart = 0; apart <= (a->p->apart.w != NULL); apart++) {
    enter(job->by, apart, 0, 0);
    int64_t n = dnn_of(a)->a.n;
    while (!offer_slices(a, trial, apart, n) && n > 1) n = (n + 1) / 2;
  }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
/* What cuDNN is to do, of maps as they lie or apart. */
typedef struct dnn_call {
  const nnc_conv *a;
  const nnc_dnn *dnn;
  const void *from, *w;
  void *to;
  int add;
} dnn_call;

static const char *from_sample(const void *p, const nnk_map *m, int64_t first) {
  return (const char *)p + sample_bytes(m) * (size_t)first;
}

static int run_fused(const dnn_call *d, int64_t first, cudnnTensorDescriptor_t da, cudnnTensorDescriptor_t db) {
  const nnc_conv *a = d->a;
  const nnc_call *c = a->job.c;
  const nnc_dnn *dnn = d->dnn;
  const float one = 1, sums = a->plus.p ? 1 : 0;
  void *to = (char *)d->to + sample_bytes(&dnn->b) * (size_t)first;
  const void *z = a->plus.p ? (const void *)from_sample(a->plus.p, &dnn->b, first) : to;
  const void *bias = nnc_product_bias(c, a->job.op);
  if (a->y.elt != NNK_F32) bias = c->fixed + nnc_cop(c, a->job.op)->off_narrow;
  return (int)cudnnConvolutionBiasActivationForward(c->cudnn, &one, da, from_sample(d->from, &dnn->a, first), dnn->w,
                                                    d->w, dnn->conv, (cudnnConvolutionFwdAlgo_t)a->job.by->algo[0],
                                                    c->workspace, c->cuda->ext->workspace_bytes, &sums, db, z,
                                                    dnn->bias, bias, dnn->act, db, to);
}

/* The slice whose first sample is `first`. */
static int run_slice(const dnn_call *d, int64_t first, int add) {
  const nnc_dnn *dnn = d->dnn;
  const nnc_call *c = d->a->job.c;
  const nnc_choice *by = d->a->job.by;
  const nnc_slices *s = &dnn->by[d->a->part];
  int whole = first + s->n <= dnn->a.n, algo = (int)by->algo[0];
  cudnnTensorDescriptor_t da = whole ? s->a : s->ra, db = whole ? s->b : s->rb;
  const float one = 1, zero = 0, *beta = add ? &one : &zero;
  void *ws = c->workspace, *to = d->to;
  size_t bytes = c->cuda->ext->workspace_bytes;
  const char *from = from_sample(d->from, d->a->part == NNC_BWD_DATA ? &dnn->b : &dnn->a, first);
  switch (d->a->part) {
    case NNC_FWD:
      if (by->variant & FUSED) return run_fused(d, first, da, db);
      to = (char *)to + sample_bytes(&dnn->b) * (size_t)first;
      return (int)cudnnConvolutionForward(c->cudnn, &one, da, from, dnn->w, d->w, dnn->conv,
                                          (cudnnConvolutionFwdAlgo_t)algo, ws, bytes, beta, db, to);
    case NNC_BWD_DATA:
      to = (char *)to + sample_bytes(&dnn->a) * (size_t)first;
      return (int)cudnnConvolutionBackwardData(c->cudnn, &one, dnn->w, d->w, db, from, dnn->conv,
                                               (cudnnConvolutionBwdDataAlgo_t)algo, ws, bytes, beta, da, to);
    default:
      return (int)cudnnConvolutionBackwardFilter(c->cudnn, &one, da, from, db, from_sample(d->w, &dnn->b, first),
                                                 dnn->conv, (cudnnConvolutionBwdFilterAlgo_t)algo, ws, bytes, beta,
                                                 dnn->w, to);
  }
}

static int to_batch(const nnc_conv *a, const nnk_map *apart, const nnk_map *m, const void *from, char *to) {
  nnk_map dst = nnc_placed(*apart, to), src = nnc_placed(*m, from);
  return -nnk_space_to_batch(a->job.c->stream, &dst, &src, nnk_lattice_of(a->job.op->d.dil, &a->p->a, &a->p->b));
}

/* Makes the maps that lie apart, if it is to be done with those. */
static int begin(const nnc_conv *a, void *to, int add, dnn_call *d) {
  const nnc_dnn *dnn = dnn_of(a);
  int data = a->part == NNC_BWD_DATA, err;
  char *of_a = a->work, *of_b = of_a + nn_align(bytes_of(&dnn->a));
  *d = (dnn_call){a, dnn, a->from, a->w, to, add};
  if (!(a->job.by->variant & APART)) return 0;
  d->from = data ? of_b : of_a;
  err = data ? to_batch(a, &dnn->b, &a->p->b, a->from, of_b) : to_batch(a, &dnn->a, &a->p->a, a->from, of_a);
  if (a->part == NNC_BWD_WEIGHTS) {
    d->w = of_b;
    return err ? err : to_batch(a, &dnn->b, &a->p->b, a->w, of_b);
  }
  d->to = data ? of_a : of_b;
  d->add = 0;
  return err;
}

static int end(const nnc_conv *a, const dnn_call *d, void *to, int add) {
  int data = a->part == NNC_BWD_DATA;
  nnk_map dst = nnc_placed(data ? a->p->a : a->p->b, to), src = nnc_placed(data ? d->dnn->a : d->dnn->b, d->to);
  if (!(a->job.by->variant & APART) || a->part == NNC_BWD_WEIGHTS) return 0;
  return -nnk_batch_to_space(a->job.c->stream, &dst, &src, nnk_lattice_of(a->job.op->d.dil, &a->p->a, &a->p->b), add);
}

static int run_maps(const nnc_conv *a, void *to, int add) {
  dnn_call d;
  int err = begin(a, to, add, &d);
  for (int64_t first = 0; first < d.dnn->a.n && !err; first += d.dnn->by[a->part].n)
    err = run_slice(&d, first, d.add || (a->part == NNC_BWD_WEIGHTS && first));
  return err ? err : end(a, &d, to, add);
}

/* The gradient comes as bfloat16; slices of it are added up as float32 first. */
static int grad_of_bf16(const nnc_conv *a, int64_t count) {
  void *stream = a->job.c->stream;
  float *sum = a->grads;
  dnn_call d;
  int err = begin(a, (char *)a->grads + nn_align((size_t)count * sizeof(float)), 0, &d);
  int64_t n = d.dnn->by[NNC_BWD_WEIGHTS].n, samples = d.dnn->a.n;
  for (int64_t first = 0; !err && first < samples; first += n) {
    err = run_slice(&d, first, 0);
    if (!err) err = -nnk_axpy(stream, n == samples ? a->sum : (nnk_sum){sum, NULL, first > 0}, NNK_BF16, d.to, count);
  }
  return err || n == samples ? err : -nnk_axpy(stream, a->sum, NNK_F32, sum, count);
}

/* cuDNN adds to float32 gradients; scaled ones, and those of bfloat16, come by way of a->grads. */
static int run(const nnc_job *job) {
  const nnc_conv *a = (const nnc_conv *)job;
  int64_t count = nnc_conv_weights(&job->c->cuda->low, job->op);
  int err;
  if (a->part != NNC_BWD_WEIGHTS) return run_maps(a, a->to, a->add);
  if (!a->grads) return run_maps(a, a->sum.p, 0);
  if (a->p->a.elt != NNK_F32) return grad_of_bf16(a, count);
  if (!a->sum.scale) return run_maps(a, a->sum.p, a->sum.add);
  err = run_maps(a, a->grads, 0);
  return err ? err : -nnk_axpy(job->c->stream, a->sum, NNK_F32, a->grads, count);
}

const nnc_way nnc_way_cudnn = {.id = NNC_WAY_CUDNN,
                               .jobs = NNC_CONVOLUTION,
                               .take = take,
                               .offer = offer,
                               .run = run,
                               .words = words,
                               .work = work};
