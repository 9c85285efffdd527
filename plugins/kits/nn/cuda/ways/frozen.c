/* SPDX-License-Identifier: MIT
 * frozen.c - ops of a frozen network that one kernel can compute at once, neck.cu.
 *
 * That kernel runs in the place of the first of its ops, when all that it reads is there, and its other ops are left
 * out. What it leaves has to have its place by then, and no value that is still read may lie there: nnc_neck_find()
 * makes these values begin with that op. prepare() measures it beside its ops, each in its own fastest way, and the
 * choice is kept. */
#include "../cuda_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- necks: finding ---------------------------------------------------------------------------------------------- */
enum { INNER, OUTER, MORE, NEXT, PARTS }; /* its ops, as the kernel has their weights */

struct nnc_neck {
  int op[PARTS];           /* MORE: -1: none */
  int x, plus, y, z;       /* values */
  unsigned char *is_whole; /* of each N that was prepared: one kernel */
};

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
static int find_sum(const nn_low *low, nnc_neck *k, int64_t outer) {
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
    k->plus = sum->in;
  } else {
    if (!is_product(low, op, inner, outer, 1, 1) || op->in != low->ops[i].out) return 0;
    k->plus = op->more[0];
    other = low->vals[k->plus].producer;
    if (other > i && is_product(low, &low->ops[other], inner, outer, 0, 0) && reader_of(low, k->plus) == reader) {
      k->op[MORE] = other;
      k->plus = low->ops[other].in;
    }
  }
  k->y = sum->out;
  return low->vals[k->plus].producer < i; /* it is there by then */
}

static nnk_neck shape_of(const nn_low *low, const nnc_neck *k, int64_t n) {
  nnk_neck of = {.x = nnc_map(&low->vals[k->x], n),
                 .plus = nnc_map(&low->vals[k->plus], n),
                 .y = nnc_map(&low->vals[k->y], n),
                 .z = nnc_map(&low->vals[k->z], n)};
  of.w[2] = k->op[MORE] < 0 ? NULL : "";
  return of;
}

/* The neck that begins with op i, unless one of its ops is a part of another one. */
static int find_at(const nn_cuda *cuda, nnc_neck *k, int i) {
  const nn_low *low = &cuda->low;
  const nn_xop *op = &low->ops[i];
  nnk_neck of;
  *k = (nnc_neck){.op = {i}, .x = op->in};
  if (!is_inner(op) || !find_sum(low, k, 4 * low->vals[op->out].c)) return 0;
  for (int j = low->vals[k->y].producer + 1; j < low->n_ops && !k->op[NEXT]; j++)
    if (low->ops[j].in == k->y && is_product(low, &low->ops[j], low->vals[k->y].c, low->vals[low->ops[j].out].c, 1, 0))
      k->op[NEXT] = j;
  if (!k->op[NEXT]) return 0;
  k->z = low->ops[k->op[NEXT]].out;
  of = shape_of(low, k, low->batch);
  for (int j = 0; j < PARTS; j++)
    if (k->op[j] >= 0 && cuda->cops[k->op[j]].neck) return 0;
  return low->vals[op->out].c == of.x.c && nnk_neck_shape(&of);
}

static int nomem(sp_ctx *ctx) { return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan"); }

int nnc_neck_find(sp_ctx *ctx, nn_cuda *cuda) {
  nn_low *low = &cuda->low;
  nnc_neck k;
  if (!low->frozen || low->training || cuda->precision != SP_PRECISION_BF16 ||
      !(cuda->device.has & NNC_HAS_WARP_GROUPS))
    return SP_OK;
  if (!(cuda->necks = calloc((size_t)low->n_ops + 1, sizeof *cuda->necks))) return nomem(ctx);
  for (int i = 0; i < low->n_ops; i++) {
    if (!find_at(cuda, &k, i)) continue;
    if (!(k.is_whole = calloc((size_t)low->batch + 1, 1))) return nomem(ctx);
    for (int j = 0; j < PARTS; j++)
      if (k.op[j] >= 0) cuda->cops[k.op[j]].neck = &cuda->necks[cuda->n_necks];
    low->vals[k.y].first = low->vals[k.z].first = i;
    cuda->necks[cuda->n_necks++] = k;
  }
  return SP_OK;
}

void nnc_neck_free(nn_cuda *cuda) {
  for (int i = 0; i < cuda->n_necks; i++) free(cuda->necks[i].is_whole);
  free(cuda->necks);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* Its values, in a call that measures: behind `at`, if given; returns their bytes. */
static size_t lay_out(const nn_low *low, const nnc_neck *k, int64_t n, char *memory, nn_at *at) {
  int values[2 + PARTS] = {k->x, k->plus}, count = 2;
  size_t bytes = 0;
  for (int i = 0; i < PARTS; i++)
    if (k->op[i] >= 0) values[count++] = low->ops[k->op[i]].out;
  for (int i = 0; i < count; i++) {
    if (at) at[values[i]].data = memory + bytes;
    bytes += nn_align(nnc_map_bytes(&low->vals[values[i]], n));
  }
  return bytes;
}

void nnc_neck_size(nn_cuda *cuda, size_t *arena) {
  const nn_low *low = &cuda->low;
  for (int i = 0; i < cuda->n_necks; i++) {
    const nnc_neck *k = &cuda->necks[i];
    size_t bytes = lay_out(low, k, low->batch, NULL, NULL), tmp = 0;
    for (int j = 0; j < PARTS; j++) {
      if (k->op[j] < 0) continue;
      if (low->ops[k->op[j]].tmp > tmp) tmp = low->ops[k->op[j]].tmp;
      if (j != INNER) /* which has one as a convolution */
        cuda->cops[k->op[j]].off_neck = nnc_fixed(cuda, nn_weight_bytes(low, low->ops[k->op[j]].d.w) / 2);
    }
    if (bytes + tmp > *arena) *arena = bytes + tmp;
  }
}

static int pack(const nnc_call *c, const nn_xop *op, size_t to) {
  const nn_val *in = &c->cuda->low.vals[op->in], *out = &c->cuda->low.vals[op->out];
  return nnc_check(
      c, op,
      nnk_wide_pack(c->stream, c->fixed + to, c->fixed + nnc_cop(c, op)->off_cast, out->c, op->d.k[0], in->c, 1));
}

int nnc_neck_pack(const nnc_call *c) {
  const nn_low *low = &c->cuda->low;
  int st = SP_OK;
  for (int i = 0; i < low->n_ops && !st; i++)
    if (c->cuda->cops[i].off_neck) st = pack(c, &low->ops[i], c->cuda->cops[i].off_neck);
  return st;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
typedef struct neck_call {
  nnc_call *c;
  nnc_neck *k;
} neck_call;

static int run_whole(void *arg) {
  const neck_call *a = arg;
  nnc_call *c = a->c;
  nnk_neck of = {
      .x = nnc_data(c, a->k->x), .plus = nnc_data(c, a->k->plus), .y = nnc_data(c, a->k->y), .z = nnc_data(c, a->k->z)};
  for (int i = 0; i < PARTS; i++) {
    const nn_xop *op = a->k->op[i] < 0 ? NULL : &c->cuda->low.ops[a->k->op[i]];
    if (!op) continue;
    of.w[i] = c->fixed + (i == INNER ? nnc_cop(c, op)->at[NNC_WAY_WIDE] : nnc_cop(c, op)->off_neck);
    of.bias[i] = nnc_product_bias(c, op);
  }
  return nnk_neck_forward(c->stream, &of, c->cuda->device.multiprocessors);
}

/* A status; the ops in the order in which they lie. */
static int run_apart(void *arg) {
  const neck_call *a = arg;
  const nn_low *low = &a->c->cuda->low;
  int st = nnc_conv_forward(a->c, &low->ops[a->k->op[INNER]]);
  for (int i = a->k->op[INNER] + 1; i <= a->k->op[NEXT] && !st; i++)
    for (int j = OUTER; j < PARTS && !st; j++)
      if (a->k->op[j] == i) st = nnc_gemm_forward(a->c, &low->ops[i]);
  return st;
}

static const char *const words[] = {"apart", "one"};

static int take(void *arg, const char *text) {
  neck_call *a = arg;
  int whole = !strcmp(text, words[1]);
  a->k->is_whole[a->c->w.n] = (unsigned char)whole;
  return whole || !strcmp(text, words[0]);
}

static int measure(void *arg, const char *key, char *text, size_t bytes) {
  neck_call *a = arg;
  sp_ctx *ctx = a->c->w.ctx;
  double whole = nnc_measure(a->c, run_whole, arg), apart = nnc_measure(a->c, run_apart, arg);
  if (whole < 0 && apart < 0) return nnc_no_choice(a->c, "there is no way to compute", key);
  ctx->host->log(ctx, SP_LOG_DEBUG, "%s: %.2f us, apart %.2f us", key, whole * 1e3, apart * 1e3);
  snprintf(text, bytes, "%s", words[whole >= 0 && (apart < 0 || whole < apart)]);
  return SP_OK;
}

static int prepare(nnc_call *c, nnc_neck *k) {
  const nn_low *low = &c->cuda->low;
  const nn_val *x = &low->vals[k->x], *y = &low->vals[k->y], *z = &low->vals[k->z];
  nn_at at[low->n_vals];
  nnc_call own = *c;
  neck_call a = {&own, k};
  nnk_neck of = shape_of(low, k, c->w.n);
  char key[SP_CUDA_KEY_MAX];
  if (!(c->cuda->device.has & NNC_HAS_WARP_GROUPS) || !nnk_neck_shape(&of)) return SP_OK;
  memcpy(at, c->w.at, sizeof at);
  own.w.at = at;
  own.w.tmp = c->w.tmp + lay_out(low, k, c->w.n, c->w.tmp, at);
  snprintf(key, sizeof key, "neck n%lld %lldx%lldx%lld to %lld%s to %lld bf16 ws%zu", (long long)c->w.n,
           (long long)x->c, (long long)x->h, (long long)x->w, (long long)y->c, k->op[MORE] < 0 ? "+map" : "+product",
           (long long)z->c, c->cuda->ext->workspace_bytes);
  return nnc_tuned(&own, key, take, measure, &a);
}

int nnc_neck_prepare(nnc_call *c) {
  int st = c->cuda->n_necks ? nnc_check(c, &c->cuda->low.ops[0], nnk_neck_prepare()) : SP_OK;
  for (int i = 0; i < c->cuda->n_necks && !st; i++) st = prepare(c, &c->cuda->necks[i]);
  return st;
}

int nnc_neck_forward(nnc_call *c, const nn_xop *op, int *st) {
  nnc_neck *k = nnc_cop(c, op)->neck;
  neck_call a = {c, k};
  if (!k || !k->is_whole[c->w.n]) return 0;
  *st = op == &c->cuda->low.ops[k->op[INNER]] ? nnc_check(c, op, run_whole(&a)) : SP_OK;
  return 1;
}
