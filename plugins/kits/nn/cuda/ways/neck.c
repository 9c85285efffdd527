/* SPDX-License-Identifier: MIT
 * neck.c - what lies between two blocks' first convolutions in a frozen residual network, as one kernel: neck.cu, in
 * bfloat16 on devices with warp groups.
 *
 * It runs instead of the first of its ops, when all that it reads is there, and its other ops are left out. What it
 * leaves has to have its place by then, and no value that is still read may lie there: these values begin with that op.
 * prepare() measures it beside its ops, each in its own fastest way, and the choice is kept. */
#include "way.h"

#include <stdio.h>
#include <string.h>

enum { INNER, OUTER, MORE, NEXT, PARTS }; /* its ops, as the kernel has their weights; MORE: -1: none */
enum { X, PLUS };                         /* values that it reads, */
enum { Y, Z };                            /* and makes */

/* ---- finding ----------------------------------------------------------------------------------------------------- */
/* A 1x1 convolution in bfloat16 of as many channels. */
static int is_product(const nn_low *low, const nn_xop *op, int64_t in, int64_t out, int relu, int more) {
  const nn_op *d = &op->d;
  return op->x == NN_X_GEMM && d->kind == NN_CONV && d->k[0] == 1 && d->k[1] == 1 && low->vals[op->in].c == in &&
         low->vals[op->out].c == out && d->relu == relu && d->n_more == more;
}

static int is_inner(const nn_xop *op) {
  const nn_op *d = &op->d;
  for (int i = 0; i < 2; i++)
    if (d->k[i] != 3 || d->s[i] != 1 || d->p[i] != 1 || d->dil[i] != 1) return 0;
  return op->x == NN_X_CONV && d->kind == NN_CONV && d->groups == 1 && d->relu && !d->n_more;
}

/* The one op that reads value v; -1: none, or several. */
static int reader_of(const nn_low *low, int v) {
  int found = -1;
  for (int i = 0; i < low->n_ops; i++)
    for (int j = 0; j <= low->ops[i].d.n_more; j++)
      if (NN_IN(&low->ops[i], j) == v) {
        if (found >= 0) return -1;
        found = i;
      }
  return found;
}

/* The sum behind op i, and what is added: a product of a value that is there, or a value. */
static int find_sum(const nn_low *low, nnc_group *k, int64_t outer) {
  int i = k->op[INNER], reader = reader_of(low, low->ops[i].out), other;
  int64_t inner = low->vals[low->ops[i].out].c;
  const nn_xop *op = reader < 0 ? NULL : &low->ops[reader], *sum = op; /* which of both adds the other one's result */
  if (!op) return 0;
  k->op[OUTER] = reader;
  k->op[MORE] = -1;
  if (is_product(low, op, inner, outer, 0, 0)) { /* the block's own product of what it adds does the sum */
    other = reader_of(low, op->out);
    if (other < 0) return 0;
    sum = &low->ops[other];
    k->op[MORE] = other;
    if (!is_product(low, sum, inner, outer, 1, 1) || sum->more[0] != op->out) return 0;
    k->in[PLUS] = sum->in;
  } else {
    if (!is_product(low, op, inner, outer, 1, 1) || op->in != low->ops[i].out) return 0;
    k->in[PLUS] = op->more[0];
    other = low->vals[k->in[PLUS]].producer;
    if (other > i && is_product(low, &low->ops[other], inner, outer, 0, 0) && reader_of(low, k->in[PLUS]) == reader) {
      k->op[MORE] = other;
      k->in[PLUS] = low->ops[other].in;
    }
  }
  k->out[Y] = sum->out;
  return low->vals[k->in[PLUS]].producer < i; /* it is there by then */
}

static nnk_neck shape_of(const nn_low *low, const nnc_group *k, int64_t n) {
  nnk_neck of = {.x = nnc_map(&low->vals[k->in[X]], n),
                 .plus = nnc_map(&low->vals[k->in[PLUS]], n),
                 .y = nnc_map(&low->vals[k->out[Y]], n),
                 .z = nnc_map(&low->vals[k->out[Z]], n)};
  of.w[2] = k->op[MORE] < 0 ? NULL : "";
  return of;
}

/* The neck that begins with op i. */
static int matches(const nn_cuda *cuda, int i, nnc_group *k) {
  const nn_low *low = &cuda->low;
  const nn_xop *op = &low->ops[i];
  nnk_neck of;
  if (!low->frozen || low->training || cuda->precision != SP_PRECISION_BF16 ||
      !(cuda->device.has & NNC_HAS_WARP_GROUPS))
    return 0;
  k->op[INNER] = i;
  k->in[X] = op->in;
  if (!is_inner(op) || !find_sum(low, k, 4 * low->vals[op->out].c)) return 0;
  for (int j = low->vals[k->out[Y]].producer + 1; j < low->n_ops && k->op[NEXT] < 0; j++)
    if (low->ops[j].in == k->out[Y] &&
        is_product(low, &low->ops[j], low->vals[k->out[Y]].c, low->vals[low->ops[j].out].c, 1, 0))
      k->op[NEXT] = j;
  if (k->op[NEXT] < 0) return 0;
  k->out[Z] = low->ops[k->op[NEXT]].out;
  of = shape_of(low, k, low->batch);
  return low->vals[op->out].c == of.x.c && nnk_neck_shape(&of);
}

static void join(nn_cuda *cuda, const nnc_group *k) {
  cuda->low.vals[k->out[Y]].first = cuda->low.vals[k->out[Z]].first = k->op[INNER];
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* Its values, in a call that measures: behind `memory`, if given; returns their bytes. */
static size_t lay_out(const nn_low *low, const nnc_group *k, int64_t n, char *memory, nn_at *at) {
  int values[2 + PARTS] = {k->in[X], k->in[PLUS]}, count = 2;
  size_t bytes = 0;
  for (int i = 0; i < PARTS; i++)
    if (k->op[i] >= 0) values[count++] = low->ops[k->op[i]].out;
  for (int i = 0; i < count; i++) {
    if (at) at[values[i]].data = memory + bytes;
    bytes += nn_align(nnc_map_bytes(&low->vals[values[i]], n));
  }
  return bytes;
}

static void size(nn_cuda *cuda, const nnc_group *k, size_t *arena) {
  const nn_low *low = &cuda->low;
  size_t bytes = lay_out(low, k, low->batch, NULL, NULL), tmp = 0;
  for (int i = 0; i < PARTS; i++)
    if (k->op[i] >= 0 && low->ops[k->op[i]].tmp > tmp) tmp = low->ops[k->op[i]].tmp;
  if (bytes + tmp > *arena) *arena = bytes + tmp;
}

/* The first of its ops has these weights as a convolution, wide.c. */
static size_t constants(const nn_cuda *cuda, const nn_xop *op) {
  const nnc_group *k = cuda->cops[op - cuda->low.ops].group;
  if (!k || k->way != &nnc_way_neck || op == &cuda->low.ops[k->op[INNER]]) return 0;
  return nn_weight_bytes(&cuda->low, op->d.w) / 2;
}

static int pack(const nnc_call *c, const nn_xop *op, void *to) {
  const nn_val *in = &c->cuda->low.vals[op->in], *out = &c->cuda->low.vals[op->out];
  return nnk_wide_pack(c->stream, to, c->fixed + nnc_cop(c, op)->off_cast, out->c, op->d.k[0], in->c, 1);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
static int takes(const nnc_job *job, const nnc_device *device) {
  const nnc_group *k = ((const nnc_group_job *)job)->group;
  nnk_neck of;
  if (k->way != &nnc_way_neck || !(device->has & NNC_HAS_WARP_GROUPS)) return 0;
  of = shape_of(&job->c->cuda->low, k, job->c->w.n);
  return nnk_neck_shape(&of);
}

static int prepare_kernels(const nnc_job *job) {
  (void)job;
  return nnk_neck_prepare();
}

static int run(const nnc_job *job) {
  const nnc_group *k = ((const nnc_group_job *)job)->group;
  const nnc_call *c = job->c;
  nnk_neck of = {.x = nnc_data(c, k->in[X]),
                 .plus = nnc_data(c, k->in[PLUS]),
                 .y = nnc_data(c, k->out[Y]),
                 .z = nnc_data(c, k->out[Z])};
  for (int i = 0; i < PARTS; i++) {
    const nn_xop *op = k->op[i] < 0 ? NULL : &c->cuda->low.ops[k->op[i]];
    if (!op) continue;
    of.w[i] = c->fixed + nnc_cop(c, op)->at[i == INNER ? NNC_WAY_WIDE : NNC_WAY_NECK];
    of.bias[i] = nnc_product_bias(c, op);
  }
  return nnk_neck_forward(c->stream, &of, c->cuda->device.multiprocessors);
}

static nnc_group_job job_of(nnc_call *c, const nnc_group *k) {
  nnc_job job = {.c = c,
                 .op = &c->cuda->low.ops[k->op[INNER]],
                 .of = NNC_GROUP,
                 .part = NNC_FORWARD,
                 .by = &k->by[c->w.n],
                 .timed = nnc_run_alone};
  return (nnc_group_job){job, k};
}

static int prepare(nnc_call *c, const nnc_group *k) {
  const nn_low *low = &c->cuda->low;
  const nn_val *x = &low->vals[k->in[X]], *y = &low->vals[k->out[Y]], *z = &low->vals[k->out[Z]];
  nn_at at[low->n_vals];
  nnc_call own = *c;
  nnc_group_job a = job_of(&own, k);
  char key[SP_CUDA_KEY_MAX];
  if (!nnc_takes_all(&a.job)) return SP_OK;
  memcpy(at, c->w.at, sizeof at);
  own.w.at = at;
  own.w.tmp = c->w.tmp + lay_out(low, k, c->w.n, c->w.tmp, at);
  snprintf(key, sizeof key, "neck n%lld %lldx%lldx%lld to %lld%s to %lld bf16 ws%zu", (long long)c->w.n,
           (long long)x->c, (long long)x->h, (long long)x->w, (long long)y->c, k->op[MORE] < 0 ? "+map" : "+product",
           (long long)z->c, c->cuda->ext->workspace_bytes);
  return nnc_choose(&a.job, key);
}

static int forward(nnc_call *c, const nnc_group *k, const nn_xop *op, int *status) {
  nnc_group_job a = job_of(c, k);
  if (!(a.job.by->does & NNC_ALL)) return 0;
  *status = op == a.job.op ? nnc_ran(&a.job, a.job.by->way->run(&a.job)) : SP_OK;
  return 1;
}

static const char *const texts[] = {"one", NULL};

static const nnc_together together = {
    .matches = matches, .join = join, .size = size, .prepare = prepare, .forward = forward};

const nnc_way nnc_way_neck = {.id = NNC_WAY_NECK,
                              .jobs = NNC_GROUP,
                              .does = NNC_ALL,
                              .texts = texts,
                              .takes = takes,
                              .prepare = prepare_kernels,
                              .run = run,
                              .constants = constants,
                              .pack = pack,
                              .together = &together};
