/* SPDX-License-Identifier: MIT
 * conv_choose.c - the ways in which a part of a convolution can be run, and which of them is the fastest. */
#include "conv.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cuDNN marks these functions in favour of graphs of its own making, which cannot be named by one number in a file. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* Can it be run at all, within the workspace, and with the same bits every time? */
static int fits(const nnc_conv *a, int algo, cudnnTensorDescriptor_t da, cudnnTensorDescriptor_t db) {
  const nn_dconv *p = nnc_conv_plan(a);
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

static int usable(const nnc_conv *a, int algo) {
  const slices *s = &nnc_conv_plan(a)->by[a->part];
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

static int take_own(const nnc_conv *a, const char *text) {
  cublasLtMatmulAlgo_t *algo = &a->p->products[a->part];
  if (a->p->by[a->part].own == KERNEL) return nnc_conv_has_kernel(a);
  return nnc_conv_has_taps(a) && !nnc_unhex(algo->data, strchr(text, ' ') + 1, sizeof algo->data);
}

/* cuDNN's call with bias, sum and ReLU has no sum of maps that lie apart. */
static int can_fuse(const nnc_conv *a) { return a->part == FWD && a->p->bias && !(a->p->by[FWD].apart && a->plus.p); }

/* "1": algorithm 1 for all samples; "1/8": for 8 at a time; "f1", "f1/8": with bias, sum and ReLU; "a1", "af1/8": of maps
 * that lie apart; "own"; "places DIGITS", "each DIGITS": by that algorithm of cuBLASLt. */
static int take(void *arg, const char *text) {
  nnc_conv *a = arg;
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
  nn_dconv *p = nnc_conv_plan(a);
  int64_t n = p->a.n;
  if (end == text || algo < 0 || algo >= counts[a->part]) return 0;
  if (*end == '/') n = strtoll(end + 1, &end, 10);
  if (*end || n < 1 || n > p->a.n || nnc_conv_cut(p, a->part, n)) return 0;
  p->by[a->part].algo = (int)algo;
  p->by[a->part].fused = fused;
  return usable(a, (int)algo);
}

/* Whether one is faster for slices of n samples: its time and text, as take() reads it. */
static int fastest(nnc_conv *a, int64_t n, int found, double *ms, char *text, size_t bytes) {
  nn_dconv *p = nnc_conv_plan(a);
  slices *s = &p->by[a->part];
  int ways = can_fuse(a) ? 2 : 1, any = 0;
  if (nnc_conv_cut(p, a->part, n)) return 0;
  for (int i = 0; i < counts[a->part] * ways; i++) {
    s->algo = i / ways;
    s->fused = i % ways;
    if (!usable(a, s->algo)) continue;
    double t = nnc_measure(a->c, nnc_conv_run_whole, a);
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
static int try_cudnn(nnc_conv *a, int apart, int found, double *ms, char *text, size_t bytes) {
  slices *s = &a->p->by[a->part];
  int any;
  s->own = NONE;
  s->apart = apart;
  int64_t n = nnc_conv_plan(a)->a.n;
  while (!(any = fastest(a, n, found, ms, text, bytes)) && n > 1) n = (n + 1) / 2;
  s->apart = 0;
  return found || any;
}

/* Measures what is not cuDNN's: is it the fastest? */
static int is_faster(nnc_conv *a, enum own own, int found, double *ms) {
  double t;
  a->p->by[a->part].own = own;
  t = nnc_measure(a->c, nnc_conv_run_whole, a);
  a->p->by[a->part].own = NONE;
  if (t < 0 || (found && t >= *ms)) return 0;
  *ms = t;
  return 1;
}

static int try_kernel(nnc_conv *a, int found, double *ms, char *text, size_t bytes) {
  if (!is_faster(a, KERNEL, found, ms)) return found;
  snprintf(text, bytes, "%s", own_words[KERNEL]);
  return 1;
}

static int try_taps(nnc_conv *a, enum own how, int found, double *ms, char *text, size_t bytes) {
  cublasLtMatmulHeuristicResult_t list[NNC_OFFERS];
  nnc_taps t = nnc_conv_taps(a);
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
  nnc_conv *a = arg;
  double ms = 0;
  int found = try_cudnn(a, 0, 0, &ms, text, bytes);
  if (a->p->apart) found = try_cudnn(a, 1, found, &ms, text, bytes);
  if (nnc_conv_has_kernel(a)) found = try_kernel(a, found, &ms, text, bytes);
  for (enum own how = TAPS; how <= EACH_TAP && nnc_conv_has_taps(a); how++)
    found = try_taps(a, how, found, &ms, text, bytes);
  if (!found) return nnc_no_choice(a->c, "cuDNN has no algorithm for", key);
  a->c->w.ctx->host->log(a->c->w.ctx, SP_LOG_DEBUG, "%s: %.2f us, algorithm %s", key, ms * 1e3, text);
  return SP_OK;
}

int nnc_conv_choose(nnc_call *c, const nn_xop *op, nnc_conv *a) {
  static const char *const parts[] = {"forward", "data", "weights"}, *const precisions[] = {"fp32", "tf32", "bf16"};
  const nnk_map *x = &a->p->a, *y = &a->p->b;
  const nn_op *d = &op->d;
  char key[SP_CUDA_KEY_MAX], apart[96] = "";
  if (a->y.p && c->cuda->low.frozen)
    snprintf(apart, sizeof apart, " frozen%s%s%s", nnc_has_bias(op) ? " bias" : "", a->plus.p ? " map" : "",
             d->relu ? " relu" : "");
  if (a->y.p && nnk_wide_shape(&a->y, x, d->k, d->s, d->p) && nnc_conv_has_kernel(a)) strcat(apart, " wide");
  if (d->groups > 1 || d->dil[0] > 1 || d->dil[1] > 1)
    snprintf(apart + strlen(apart), sizeof apart - strlen(apart), " d%dx%d g%d", d->dil[0], d->dil[1], d->groups);
  snprintf(key, sizeof key, "conv %s n%lld %lldx%lldx%lld to %lldx%lldx%lld k%dx%d s%dx%d p%dx%d%s %s ws%zu",
           parts[a->part], (long long)c->w.n, (long long)x->c, (long long)x->h, (long long)x->w, (long long)y->c,
           (long long)y->h, (long long)y->w, d->k[0], d->k[1], d->s[0], d->s[1], d->p[0], d->p[1], apart,
           precisions[c->cuda->precision], c->cuda->ext->workspace_bytes);
  return nnc_tuned(c, key, take, measure, a);
}
