/* SPDX-License-Identifier: MIT
 * conv.c - convolutions of any kernel, and their transposes, channels-last.
 *
 * A transposed convolution runs the parts of the convolution that it transposes: its input is that one's result. Only
 * ways that give the same bits every time are candidates; prepare() has them measured, and the choice is kept. In a
 * frozen network the time of a forward includes what of bias, sum and ReLU is a pass behind it. */
#include "conv.h"

#include <stdio.h>
#include <stdlib.h>

static int part_forward(const nn_xop *op) { return nnc_conv_transposed(op) ? NNC_BWD_DATA : NNC_FWD; }
static int part_data(const nn_xop *op) { return nnc_conv_transposed(op) ? NNC_FWD : NNC_BWD_DATA; }

void nnc_conv_maps(const nn_low *low, const nn_xop *op, int64_t n, nnk_map *a, nnk_map *b) {
  *a = nnc_map(&low->vals[nnc_conv_transposed(op) ? op->out : op->in], n);
  *b = nnc_map(&low->vals[nnc_conv_transposed(op) ? op->in : op->out], n);
}

/* Gradients of the weights as cuDNN gives them, and as float32. */
static size_t grad_bytes(const nn_low *low, const nn_xop *op) {
  return low->training ? 2 * nn_align((size_t)nnc_conv_weights(low, op) * sizeof(float)) : 0;
}

void nnc_conv_size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  nn_low *low = &cuda->low;
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  size_t sum = nn_align((size_t)nnc_conv_weights(low, op) * sizeof(float));
  size_t work = nnc_ways_work(cuda, op, low->batch);
  cuda->cops[op - low->ops].off_cast = nnc_fixed(cuda, in->elt != NN_F32 ? sum : 0);
  cuda->cops[op - low->ops].off_narrow = nnc_fixed(cuda, in->elt != NN_F32 && low->frozen ? (size_t)out->c * 2 : 0);
  nnc_ways_constants(cuda, op);
  op->tmp = grad_bytes(low, op) + work;
  *arena = nn_align(nnc_map_bytes(in, low->batch)) + nn_align(nnc_map_bytes(out, low->batch)) + sum + work;
}

void nnc_conv_free(nn_dconv *p) {
  while (p) {
    nn_dconv *next = p->next;
    nnc_dnn_close(p);
    free(p);
    p = next;
  }
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */
static int handles(nnc_call *c) {
  int status = c->cudnn ? SP_OK : c->cuda->ext->cudnn(c->w.ctx, &c->cudnn);
  if (!status && !c->lt) status = c->cuda->ext->cublaslt(c->w.ctx, &c->lt);
  return status ? status : nnc_workspace(c);
}

static const void *weight(const nnc_call *c, const nn_xop *op) {
  if (c->cuda->low.vals[op->in].elt == NN_F32) return nnc_product_weight(c, op);
  return c->fixed + nnc_cop(c, op)->off_cast;
}

static nnc_job job_of(nnc_call *c, const nn_xop *op, nn_dconv *p, int part) {
  int of_op = part == NNC_BWD_WEIGHTS ? NNC_WEIGHT : part == part_forward(op) ? NNC_FORWARD : NNC_DATA;
  return (nnc_job){.c = c, .op = op, .of = NNC_CONVOLUTION, .part = of_op, .by = &p->by[part]};
}

static void key_of(const nnc_conv *a, char *key) {
  static const char *const parts[] = {"forward", "data", "weights"}, *const precisions[] = {"fp32", "tf32", "bf16"};
  const nnc_call *c = a->job.c;
  const nnk_map *x = &a->p->a, *y = &a->p->b;
  const nn_op *d = &a->job.op->d;
  const char *keyed = nnc_keyed(&a->job);
  char frozen[32] = "", apart[64] = "";
  if (a->y.p && c->cuda->low.frozen)
    snprintf(frozen, sizeof frozen, " frozen%s%s%s", nnc_has_bias(a->job.op) ? " bias" : "", a->plus.p ? " map" : "",
             d->relu ? " relu" : "");
  if (d->groups > 1 || d->dil[0] > 1 || d->dil[1] > 1)
    snprintf(apart, sizeof apart, " d%dx%d g%d", d->dil[0], d->dil[1], d->groups);
  snprintf(key, SP_CUDA_KEY_MAX, "conv %s n%lld %lldx%lldx%lld to %lldx%lldx%lld k%dx%d s%dx%d p%dx%d%s%s%s%s %s ws%zu",
           parts[a->part], (long long)c->w.n, (long long)x->c, (long long)x->h, (long long)x->w, (long long)y->c,
           (long long)y->h, (long long)y->w, d->k[0], d->k[1], d->s[0], d->s[1], d->p[0], d->p[1], frozen,
           keyed ? " " : "", keyed ? keyed : "", apart, precisions[c->cuda->precision], c->cuda->ext->workspace_bytes);
}

static int finish(const nnc_conv *a) {
  return nnc_finish(&a->job, &a->y, nnc_product_bias(a->job.c, a->job.op), &a->plus);
}

static int run_timed(void *job) {
  const nnc_conv *a = job;
  int err = a->job.by->way->run(job);
  return err || !a->y.p || !a->job.c->cuda->low.frozen ? err : finish(a);
}

static nn_dconv *new_conv(nnc_call *c, const nn_xop *op, int *status) {
  nn_dconv *p = calloc(1, sizeof *p);
  int err;
  if (!p) {
    *status = nnc_fail(c, op, SP_E_NOMEM, "out of memory for a convolution");
    return NULL;
  }
  nnc_conv_maps(&c->cuda->low, op, c->w.n, &p->a, &p->b);
  if ((err = nnc_dnn_open(c, op, p))) *status = nnc_fail(c, op, SP_E_UNSUPPORTED, nnc_way_cudnn.words(err));
  return p;
}

static int choose(nnc_call *c, const nn_xop *op, nn_dconv *p, int part) {
  const nn_low *low = &c->cuda->low;
  char *x = c->w.tmp, *y = x + nn_align(nnc_map_bytes(&low->vals[op->in], c->w.n));
  char *g = y + nn_align(nnc_map_bytes(&low->vals[op->out], c->w.n));
  char *a = nnc_conv_transposed(op) ? y : x, *b = nnc_conv_transposed(op) ? x : y, key[SP_CUDA_KEY_MAX];
  nnc_conv r = {.job = job_of(c, op, p, part), .p = p, .part = part, .w = weight(c, op)};
  r.job.timed = run_timed;
  r.from = part == NNC_BWD_DATA ? b : a;
  r.to = part == NNC_FWD ? b : a;
  r.work = g + nn_align((size_t)nnc_conv_weights(low, op) * sizeof(float));
  if (part == NNC_BWD_WEIGHTS) {
    r.w = b;
    r.sum.p = (float *)g;
  }
  if (part == part_forward(op)) {
    r.y = nnc_map(&low->vals[op->out], c->w.n);
    r.y.p = y;
    if (op->d.n_more) r.plus = r.y;
  }
  key_of(&r, key);
  return nnc_choose(&r.job, key);
}

static nn_dconv *find(const nnc_call *c, const nn_xop *op) {
  nn_dconv *p = nnc_cop(c, op)->convs;
  while (p && p->a.n != c->w.n) p = p->next;
  return p;
}

int nnc_conv_prepare(nnc_call *c, const nn_xop *op) {
  const nn_low *low = &c->cuda->low;
  nn_cop *cop = &c->cuda->cops[nnc_index(c, op)];
  int parts = low->training ? low->frozen ? NNC_BWD_DATA + 1 : NNC_CONV_PARTS : 0, status = handles(c);
  nn_dconv *p;
  if (status || find(c, op)) return status;
  p = new_conv(c, op, &status);
  for (int part = 0; part < NNC_CONV_PARTS && !status; part++)
    if (part < parts || part == part_forward(op)) status = choose(c, op, p, part);
  if (status) {
    nnc_conv_free(p);
    return status;
  }
  p->next = cop->convs;
  cop->convs = p;
  return SP_OK;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
static int run(nnc_call *c, const nn_xop *op, nnc_conv *a) {
  int status = handles(c);
  a->work = c->w.tmp + grad_bytes(&c->cuda->low, op);
  a->p = find(c, op);
  if (status) return status;
  if (!a->p) return nnc_fail(c, op, SP_E_STATE, "a batch of this size was not prepared");
  a->job = job_of(c, op, a->p, a->part);
  return nnc_ran(&a->job, a->job.by->way->run(&a->job));
}

int nnc_conv_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out);
  nnc_conv a = {.part = part_forward(op),
                .from = nnc_data(c, op->in).p,
                .w = weight(c, op),
                .to = y.p,
                .y = y,
                .plus = nnc_product_plus(c, op)};
  int status = run(c, op, &a);
  return status ? status : nnc_check(c, op, finish(&a));
}

int nnc_conv_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  nnc_conv a = {.part = part_data(op), .from = dy.p, .w = weight(c, op)};
  int transposed = nnc_conv_transposed(op), status = SP_OK;
  nnc_into in;
  nnk_sum g;
  nnc_din(c, op->in, &in);
  if (in.dx) {
    a.to = in.dx->p;
    a.add = in.add;
    status = run(c, op, &a);
    if (!status && in.mask) status = nnc_check(c, op, nnc_mask(c, op->in, in.dx, in.dx, in.mask));
  }
  if (!status) status = nnc_plus_backward(c, op);
  if (!status) status = nnc_bias_grad(c, op);
  g = nnc_grad_of(c, op->d.w);
  if (status || !g.p) return status;
  a = (nnc_conv){.part = NNC_BWD_WEIGHTS,
                 .from = transposed ? dy.p : x.p,
                 .w = transposed ? x.p : dy.p,
                 .sum = g,
                 .grads = c->w.tmp};
  return run(c, op, &a);
}
