/* SPDX-License-Identifier: MIT
 * conv_run.c - a part of a convolution, in each way in which it can be run. */
#include "conv.h"

/* cuDNN marks these functions in favour of graphs of its own making, which cannot be named by one number in a file. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* ---- running ----------------------------------------------------------------------------------------------------- */
static const char *from_sample(const void *p, const nnk_map *m, int64_t first) {
  return (const char *)p + nnc_sample_bytes(m) * (size_t)first;
}

static const void *fused_bias(const nnc_conv *a) {
  if (a->y.elt == NNK_F32) return nnc_product_bias(a->c, a->op);
  return a->c->fixed + nnc_cop(a->c, a->op)->off_narrow;
}

static int run_fused(const nnc_conv *a, int64_t first, cudnnTensorDescriptor_t da, cudnnTensorDescriptor_t db) {
  const nn_dconv *p = a->p;
  const slices *s = &p->by[FWD];
  const float one = 1, sums = a->plus.p ? 1 : 0;
  void *to = (char *)a->to + nnc_sample_bytes(&p->b) * (size_t)first;
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
static int is_first(const nnc_conv *a, const nnk_map *x) {
  const nn_op *d = &a->op->d;
  return !d->n_more && nnk_first_shape(&a->y, x, d->k, d->s, d->p);
}

int nnc_conv_has_kernel(const nnc_conv *a) {
  const nn_op *d = &a->op->d;
  const nn_low *low = &a->c->cuda->low;
  nnk_map x = nnc_map(&low->vals[a->op->in], a->p->a.n);
  if (a->part != FWD || nnc_conv_transposed(a->op) || !low->frozen || d->groups > 1 || d->dil[0] > 1 || d->dil[1] > 1)
    return 0;
  if (!nnc_cop(a->c, a->op)->off_wide) return 0;
  return is_first(a, &x) ||
         (a->c->cuda->device.has & NNC_HAS_WARP_GROUPS && nnk_wide_shape(&a->y, &x, d->k, d->s, d->p));
}

static int run_kernel(const nnc_conv *a) {
  const nn_op *d = &a->op->d;
  const float *bias = nnc_product_bias(a->c, a->op);
  const void *w = a->c->fixed + nnc_cop(a->c, a->op)->off_wide;
  nnk_map x = nnc_map(&a->c->cuda->low.vals[a->op->in], a->p->a.n);
  int multiprocessors = a->c->cuda->device.multiprocessors;
  x.p = (void *)(uintptr_t)a->from;
  if (is_first(a, &x)) return nnk_first_forward(a->c->stream, &a->y, &x, d->k[0], w, bias, d->relu, multiprocessors);
  return nnk_wide_forward(a->c->stream, &a->y, &x, d->k[0], d->s[0], w, bias, a->plus.p ? &a->plus : NULL, d->relu,
                          multiprocessors);
}

int nnc_conv_has_taps(const nnc_conv *a) {
  return a->part != BWD_DATA && nnc_taps_work(&a->c->cuda->low, a->op, a->p->a.n, a->part == FWD) > 0;
}

nnc_taps nnc_conv_taps(const nnc_conv *a) {
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
static int run_own(const nnc_conv *a) {
  nnc_taps t;
  int err;
  if (a->p->by[a->part].own == KERNEL) err = run_kernel(a);
  else {
    t = nnc_conv_taps(a);
    err = nnc_taps_run(&t);
  }
  return err ? CUDNN_STATUS_EXECUTION_FAILED : 0;
}

/* ---- cuDNN's ----------------------------------------------------------------------------------------------------- */
/* The slice whose first sample is `first`. */
int nnc_conv_run_slice(const nnc_conv *a, int64_t first, int add) {
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
      to = (char *)to + nnc_sample_bytes(&p->b) * (size_t)first;
      return (int)cudnnConvolutionForward(a->c->cudnn, &one, da, from, p->w, a->w, p->conv,
                                          (cudnnConvolutionFwdAlgo_t)s->algo, ws, bytes, beta, db, to);
    case BWD_DATA:
      to = (char *)to + nnc_sample_bytes(&p->a) * (size_t)first;
      return (int)cudnnConvolutionBackwardData(a->c->cudnn, &one, p->w, a->w, db, from, p->conv,
                                               (cudnnConvolutionBwdDataAlgo_t)s->algo, ws, bytes, beta, da, to);
    default:
      return (int)cudnnConvolutionBackwardFilter(a->c->cudnn, &one, da, from, db, from_sample(a->w, &p->b, first),
                                                 p->conv, (cudnnConvolutionBwdFilterAlgo_t)s->algo, ws, bytes, beta,
                                                 p->w, to);
  }
}

static int run_slices(const nnc_conv *a) {
  int err = 0;
  for (int64_t first = 0; first < a->p->a.n && !err; first += a->p->by[a->part].n)
    err = nnc_conv_run_slice(a, first, a->add || (a->part == BWD_WEIGHTS && first));
  return err;
}

/* ---- maps apart -------------------------------------------------------------------------------------------------- */
static int to_batch(const nnc_conv *a, const nnk_map *apart, const nnk_map *m, const void *from, char *to) {
  nnk_map dst = placed(*apart, to), src = placed(*m, from);
  return nnk_space_to_batch(a->c->stream, &dst, &src, nnk_lattice_of(a->op->d.dil, &a->p->a, &a->p->b));
}

/* What cuDNN is to do: *a itself, or the same of maps that lie apart, which are made for it. */
int nnc_conv_enter(const nnc_conv *a, nnc_conv *in) {
  const nn_dconv *p = a->p;
  int data = a->part == BWD_DATA, err;
  char *of_a = a->work, *of_b;
  *in = *a;
  if (!p->by[a->part].apart) return 0;
  in->p = p->apart;
  of_b = of_a + nn_align(nnc_bytes(&in->p->a));
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

static int leave(const nnc_conv *a, const nnc_conv *in) {
  const nn_dconv *p = a->p;
  int data = a->part == BWD_DATA;
  nnk_map dst = placed(data ? p->a : p->b, a->to), src = placed(data ? in->p->a : in->p->b, in->to);
  if (in->p == p || a->part == BWD_WEIGHTS) return 0;
  return nnk_batch_to_space(a->c->stream, &dst, &src, nnk_lattice_of(a->op->d.dil, &p->a, &p->b), a->add);
}

int nnc_conv_run(void *arg) {
  const nnc_conv *a = arg;
  nnc_conv in;
  int err;
  if (a->p->by[a->part].own) return run_own(a);
  if (nnc_conv_enter(a, &in)) return CUDNN_STATUS_EXECUTION_FAILED;
  if ((err = run_slices(&in))) return err;
  return leave(a, &in) ? CUDNN_STATUS_EXECUTION_FAILED : 0;
}

/* What comes behind a forward that is not fused; a cudaError_t. */
int nnc_conv_run_pass(const nnc_conv *a) {
  const float *bias = nnc_product_bias(a->c, a->op);
  enum own own = a->p->by[a->part].own;
  int done = own ? own == KERNEL : nnc_conv_plan(a)->by[a->part].fused;
  if (done || !(bias || a->op->d.relu || a->plus.p)) return 0;
  return nnk_bias_relu(a->c->stream, &a->y, &a->y, bias, a->plus.p ? &a->plus : NULL, a->op->d.relu);
}

int nnc_conv_run_whole(void *arg) {
  const nnc_conv *a = arg;
  int err = nnc_conv_run(arg);
  return err || !a->y.p || !a->c->cuda->low.frozen ? err : nnc_conv_run_pass(a);
}
