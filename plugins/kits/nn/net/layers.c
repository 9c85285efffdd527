/* SPDX-License-Identifier: MIT
 * layers.c - what a layer makes of its input: the checks of its parameters, shapes, ops and weights. */
#include "net_impl.h"

#include <spcore/rng.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../ops/axis.h"

static void pair(const sp_ints *v, int def, int dst[2]) {
  for (int i = 0; i < 2; i++) {
    int64_t x = v->n ? v->v[v->n == 2 ? i : 0] : 0;
    dst[i] = x ? (int)x : def;
  }
}

static int need_map(sp_ctx *ctx, const nn_net *net, int in, const char *place, const char *type) {
  const nn_value *v = &net->values[in];
  if (!v->flat) return SP_OK;
  return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): needs an N x C x H x W input, got N x %lld", place, type,
                         (long long)v->c);
}

static int need_out(sp_ctx *ctx, const nn_layer *l, const char *place) {
  if (l->out >= 1) return SP_OK;
  return ctx->host->fail(ctx, SP_E_INVALID, "%s (%s): `out` is missing; write { \"%s\", %s }", place,
                         nn_type_name(l->type), nn_type_name(l->type),
                         l->type == NN_GROUP_NORM ? "GROUPS" : "CHANNELS");
}

static int check_size(sp_ctx *ctx, const char *place, const char *type, int64_t c, int64_t h, int64_t w) {
  if (h <= NN_MAX_EXTENT && w <= NN_MAX_EXTENT && h * w <= INT64_C(1) << 32 && c * h * w <= INT64_C(1) << 36)
    return SP_OK;
  return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): the result of %lld x %lld x %lld is too large", place, type,
                         (long long)c, (long long)h, (long long)w);
}

static int check_groups(sp_ctx *ctx, int64_t groups, int64_t in, int64_t out, const char *place, const char *type) {
  if (in % groups == 0 && out % groups == 0) return SP_OK;
  return ctx->host->fail(ctx, SP_E_INVALID, "%s (%s): %lld groups do not divide its %lld %s channels", place, type,
                         (long long)groups, (long long)(in % groups ? in : out), in % groups ? "input" : "output");
}

static const char *dilated(const nn_op *op, int i, char *buf) {
  if (op->dil[i] > 1) snprintf(buf, 32, " of dilation %d", op->dil[i]);
  return buf;
}

/* What a convolution, or a transposed one, makes of `from` rows or (i 1) columns. */
static int conv_extent(sp_ctx *ctx, const nn_op *op, int i, int64_t from, int64_t *to, const char *place) {
  const char *axis = i ? "wide" : "high", *type = nn_kind_name(op->kind);
  int64_t under = (int64_t)op->dil[i] * (op->k[i] - 1) + 1;
  if (op->kind == NN_OP_CONVT) {
    if (op->op[i] && op->op[i] >= op->s[i])
      return ctx->host->fail(ctx, SP_E_INVALID, "%s (%s): out_pad %d must be below the stride %d", place, type,
                             op->op[i], op->s[i]);
    *to = (from - 1) * op->s[i] - 2 * op->p[i] + under + op->op[i];
    if (*to >= 1) return SP_OK;
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): pad %d leaves nothing of a map %lld %s", place, type, op->p[i],
                           (long long)from, axis);
  }
  if (under > from + 2 * op->p[i])
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): kernel %d%s is larger than the map, %lld %s with pad %d", place,
                           type, op->k[i], dilated(op, i, (char[32]){0}), (long long)from, axis, op->p[i]);
  *to = (from + 2 * op->p[i] - under) / op->s[i] + 1;
  return SP_OK;
}

static int conv_size(sp_ctx *ctx, nn_op *op, const nn_value *in, int64_t out, int64_t hw[2], const char *place) {
  const char *type = nn_kind_name(op->kind);
  int st = SP_OK;
  for (int i = 0; i < 2 && !st; i++) {
    if (!op->dil[i] || op->k[i] == 1) op->dil[i] = 1;
    st = conv_extent(ctx, op, i, i ? in->w : in->h, &hw[i], place);
  }
  if (st || (st = check_size(ctx, place, type, out, hw[0], hw[1]))) return st;
  if (in->c / op->groups * out > (INT64_C(1) << 34) / (op->k[0] * op->k[1]))
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): %lld x %lld channels of %d x %d make too many weights", place,
                           type, (long long)in->c, (long long)out, op->k[0], op->k[1]);
  return SP_OK;
}

/* A weight, and a bias where the op has one, as PyTorch begins them. */
static int add_uniform(sp_ctx *ctx, nn_net *net, const nn_op *op, const char *name, int ndim, const int64_t *shape,
                       int64_t out, double fan_in) {
  int st = nn_add_param(ctx, net, name, "weight", ndim, shape, SP_WEIGHT_TRAINED, SP_INIT_UNIFORM, fan_in);
  if (st || !op->bias) return st;
  return nn_add_param(ctx, net, name, "bias", 1, &out, SP_WEIGHT_TRAINED, SP_INIT_UNIFORM, fan_in);
}

/* A weight that begins as 1 and a bias as 0, for each channel. */
static int add_affine(sp_ctx *ctx, nn_net *net, const char *name, int64_t c) {
  int st = nn_add_param(ctx, net, name, "weight", 1, &c, SP_WEIGHT_TRAINED, SP_INIT_CONST, 1);
  return st ? st : nn_add_param(ctx, net, name, "bias", 1, &c, SP_WEIGHT_TRAINED, SP_INIT_CONST, 0);
}

int nn_add_conv(sp_ctx *ctx, nn_net *net, int in, const nn_op *proto, int64_t out, const char *name,
                const char *place) {
  nn_value v = net->values[in];
  nn_op op = *proto;
  const char *type = nn_kind_name(op.kind);
  bool transposed = op.kind == NN_OP_CONVT;
  int64_t hw[2];
  if (!op.groups) op.groups = 1;
  int st = need_map(ctx, net, in, place, type);
  if (st || (st = check_groups(ctx, op.groups, v.c, out, place, type)) ||
      (st = conv_size(ctx, &op, &v, out, hw, place)))
    return st;
  int64_t from = transposed ? v.c : out, to = (transposed ? out : v.c) / op.groups;
  op.in = in;
  op.w = net->n_weights;
  st = add_uniform(ctx, net, &op, name, 4, (int64_t[]){from, to, op.k[0], op.k[1]}, out,
                   (double)(to * op.k[0] * op.k[1]));
  return st ? st : nn_add_op(ctx, net, &op, (nn_value){out, hw[0], hw[1], 0});
}

int nn_add_batch_norm(sp_ctx *ctx, nn_net *net, int in, double eps, double momentum, const char *name) {
  nn_value v = net->values[in];
  nn_op op = {.kind = NN_OP_BATCH_NORM, .in = in, .w = net->n_weights, .eps = eps, .momentum = momentum};
  sp_weight count = {.flags = SP_WEIGHT_STATE, .init = SP_INIT_CONST};
  int st;
  count.spec.dtype = SP_I64;
  if ((st = add_affine(ctx, net, name, v.c)) ||
      (st = nn_add_param(ctx, net, name, "running_mean", 1, &v.c, SP_WEIGHT_STATE, SP_INIT_CONST, 0)) ||
      (st = nn_add_param(ctx, net, name, "running_var", 1, &v.c, SP_WEIGHT_STATE, SP_INIT_CONST, 1)) ||
      (st = nn_add_weight(ctx, net, name, "num_batches_tracked", &count)))
    return st;
  return nn_add_op(ctx, net, &op, v);
}

static int group_norm(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  nn_value v = net->values[in];
  nn_op op = {.kind = NN_OP_GROUP_NORM, .in = in, .w = net->n_weights, .bias = 1, .groups = (int)l->out, .eps = l->eps};
  int st = check_groups(ctx, l->out, v.c, v.c, place, "group_norm");
  if (st || (st = add_affine(ctx, net, name, v.c))) return st;
  return nn_add_op(ctx, net, &op, v);
}

static int simple(sp_ctx *ctx, nn_net *net, int kind, const int *in, int n, nn_value out) {
  nn_op op = {.kind = kind, .in = in[0], .n_more = n - 1, .w = -1};
  for (int i = 1; i < n; i++) op.more[i - 1] = in[i];
  return nn_add_op(ctx, net, &op, out);
}

int nn_add_relu(sp_ctx *ctx, nn_net *net, int in) { return simple(ctx, net, NN_OP_RELU, &in, 1, net->values[in]); }

static int pool(sp_ctx *ctx, nn_net *net, int in, const nn_op *proto, const char *place) {
  nn_value v = net->values[in];
  nn_op op = *proto;
  const char *type = nn_kind_name(op.kind);
  int64_t hw[2] = {v.h, v.w}, o[2];
  int st;
  if ((st = need_map(ctx, net, in, place, type))) return st;
  for (int i = 0; i < 2; i++) {
    if (op.k[i] > hw[i] + 2 * op.p[i])
      return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): kernel %d is larger than the map, %lld %s with pad %d", place,
                             type, op.k[i], (long long)hw[i], i ? "wide" : "high", op.p[i]);
    if (op.p[i] * 2 > op.k[i])
      return ctx->host->fail(ctx, SP_E_INVALID, "%s (%s): pad %d is more than half of the kernel %d", place, type,
                             op.p[i], op.k[i]);
    o[i] = (hw[i] + 2 * op.p[i] - op.k[i]) / op.s[i] + 1;
  }
  op.in = in;
  return nn_add_op(ctx, net, &op, (nn_value){v.c, o[0], o[1], 0});
}

/* Over the map, which becomes one pixel. */
static int mean(sp_ctx *ctx, nn_net *net, int in, const char *place) {
  nn_value v = net->values[in];
  nn_op op = {.kind = NN_OP_AVG_POOL, .in = in, .w = -1, .k = {(int)v.h, (int)v.w}, .s = {1, 1}};
  int st = need_map(ctx, net, in, place, "mean");
  if (st) return st;
  if (v.h > INT32_MAX / v.w)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s (mean): a map of %lld x %lld is too large to take its mean", place,
                           (long long)v.h, (long long)v.w);
  return v.h * v.w == 1 ? in : pool(ctx, net, in, &op, place);
}

static int upsample(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *place) {
  nn_value v = net->values[in];
  nn_op op = {.kind = NN_OP_UPSAMPLE, .in = in, .w = -1, .mode = l->align_corners ? NN_ALIGNED : l->mode};
  int scale[2], size[2], st = need_map(ctx, net, in, place, "upsample");
  if (st) return st;
  pair(&l->scale, 0, scale);
  pair(&l->size, 0, size);
  if (!(scale[0] && scale[1]) == !(size[0] && size[1]))
    return ctx->host->fail(ctx, SP_E_INVALID, "%s (upsample): give either `scale`, `size` or `like`", place);
  if (l->align_corners && l->mode != NN_BILINEAR)
    return ctx->host->fail(ctx, SP_E_INVALID, "%s (upsample): align_corners is for mode = \"bilinear\"", place);
  v.h = scale[0] ? v.h * scale[0] : size[0];
  v.w = scale[0] ? v.w * scale[1] : size[1];
  if ((st = check_size(ctx, place, "upsample", v.c, v.h, v.w))) return st;
  return nn_add_op(ctx, net, &op, v);
}

static int dropout(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name) {
  nn_op op = {.kind = NN_OP_DROPOUT, .in = in, .w = -1, .drop = l->p, .maps = l->maps, .salt = sp_rng_key(0, name)};
  return nn_add_op(ctx, net, &op, net->values[in]);
}

static int linear(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  nn_value v = net->values[in];
  int64_t shape[2] = {l->out, v.c};
  nn_op op = {.kind = NN_OP_LINEAR, .in = in, .w = net->n_weights, .bias = l->bias};
  int st;
  if (!v.flat)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "%s (linear): needs an N x C input, got N x %lld x %lld x %lld; put "
                           "{ \"flatten\" } before it",
                           place, (long long)v.c, (long long)v.h, (long long)v.w);
  if (v.c > (INT64_C(1) << 34) / l->out)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s (linear): %lld x %lld features make too many weights", place,
                           (long long)v.c, (long long)l->out);
  if ((st = add_uniform(ctx, net, &op, name, 2, shape, l->out, (double)v.c))) return st;
  return nn_add_op(ctx, net, &op, (nn_value){l->out, 1, 1, 1});
}

/* As torchvision's BasicBlock: conv1, bn1, relu, conv2, bn2, plus the input or its projection, relu. */
static int residual(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  nn_op c3 = {.kind = NN_OP_CONV, .k = {3, 3}, .s = {1, 1}, .p = {1, 1}}, c1 = c3;
  char sub[NN_MAX_NAME];
  int v, skip = in, st;
  if ((st = need_map(ctx, net, in, place, "residual"))) return st;
  pair(&l->stride, 1, c3.s);
  memcpy(c1.s, c3.s, sizeof c1.s);
#define NAME(part) (snprintf(sub, sizeof sub, "%s." part, name), sub)
  if ((v = nn_add_conv(ctx, net, in, &c3, l->out, NAME("conv1"), place)) < 0) return v;
  if ((v = nn_add_batch_norm(ctx, net, v, l->eps, l->momentum, NAME("bn1"))) < 0) return v;
  if ((v = nn_add_relu(ctx, net, v)) < 0) return v;
  c3.s[0] = c3.s[1] = 1;
  if ((v = nn_add_conv(ctx, net, v, &c3, l->out, NAME("conv2"), place)) < 0) return v;
  if ((v = nn_add_batch_norm(ctx, net, v, l->eps, l->momentum, NAME("bn2"))) < 0) return v;
  if (c1.s[0] != 1 || c1.s[1] != 1 || net->values[in].c != l->out) {
    c1.k[0] = c1.k[1] = 1;
    c1.p[0] = c1.p[1] = 0;
    if ((skip = nn_add_conv(ctx, net, in, &c1, l->out, NAME("downsample.0"), place)) < 0) return skip;
    if ((skip = nn_add_batch_norm(ctx, net, skip, l->eps, l->momentum, NAME("downsample.1"))) < 0) return skip;
  }
#undef NAME
  if ((v = simple(ctx, net, NN_OP_ADD, (int[]){v, skip}, 2, net->values[v])) < 0) return v;
  return nn_add_relu(ctx, net, v);
}

static int conv_layer(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  bool plain = l->type == NN_CONV;
  nn_op op = {.kind = plain ? NN_OP_CONV : NN_OP_CONVT, .bias = l->bias, .groups = (int)l->groups};
  pair(&l->kernel, plain ? 3 : 2, op.k);
  pair(&l->stride, plain ? 1 : 2, op.s);
  pair(&l->pad, 0, op.p);
  pair(&l->out_pad, 0, op.op);
  pair(&l->dilation, 1, op.dil);
  return nn_add_conv(ctx, net, in, &op, l->out, name, place);
}

static int pool_layer(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *place) {
  nn_op op = {.kind = l->type == NN_MAX_POOL ? NN_OP_MAX_POOL : NN_OP_AVG_POOL, .w = -1};
  pair(&l->kernel, 2, op.k);
  for (int i = 0; i < 2; i++) {
    int s[2];
    pair(&l->stride, op.k[i], s);
    op.s[i] = s[i];
  }
  pair(&l->pad, 0, op.p);
  return pool(ctx, net, in, &op, place);
}

static int batch_norm_layer(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  int64_t c = net->values[in].c;
  if (l->out && l->out != c)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s (batch_norm): made for %lld channels, the input has %lld", place,
                           (long long)l->out, (long long)c);
  return nn_add_batch_norm(ctx, net, in, l->eps, l->momentum, name);
}

static bool needs_out(int type) {
  return type == NN_CONV || type == NN_CONVT || type == NN_GROUP_NORM || type == NN_LINEAR || type == NN_RESIDUAL;
}

int nn_add_layer(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  nn_value v = net->values[in];
  int st = needs_out(l->type) ? need_out(ctx, l, place) : SP_OK;
  if (st) return st;
  switch (l->type) {
    case NN_CONV:
    case NN_CONVT: return conv_layer(ctx, net, in, l, name, place);
    case NN_MAX_POOL:
    case NN_AVG_POOL: return pool_layer(ctx, net, in, l, place);
    case NN_MEAN: return mean(ctx, net, in, place);
    case NN_SIGMOID:
    case NN_HARD_SIGMOID:
    case NN_HARD_SWISH:
    case NN_SILU: return simple(ctx, net, NN_OP_SIGMOID + l->type - NN_SIGMOID, &in, 1, v);
    case NN_UPSAMPLE: return upsample(ctx, net, in, l, place);
    case NN_DROPOUT: return dropout(ctx, net, in, l, name);
    case NN_BATCH_NORM: return batch_norm_layer(ctx, net, in, l, name, place);
    case NN_GROUP_NORM: return group_norm(ctx, net, in, l, name, place);
    case NN_RELU: return nn_add_relu(ctx, net, in);
    case NN_LINEAR: return linear(ctx, net, in, l, name, place);
    case NN_FLATTEN:
      if (v.flat) return in;
      return simple(ctx, net, NN_OP_FLATTEN, &in, 1, (nn_value){v.c * v.h * v.w, 1, 1, 1});
    default: return residual(ctx, net, in, l, name, place);
  }
}

/* ---- several inputs ---------------------------------------------------------------------------------------------- */
static const char *shape_text(const nn_value *v, char *buf, size_t n) {
  if (v->flat) snprintf(buf, n, "N x %lld", (long long)v->c);
  else snprintf(buf, n, "N x %lld x %lld x %lld", (long long)v->c, (long long)v->h, (long long)v->w);
  return buf;
}

/* A number for each sample and channel may be a factor of all pixels. */
static int is_factor(const nn_value *v, const nn_value *of) { return v->c == of->c && v->h * v->w == 1; }

int nn_add_joined(sp_ctx *ctx, nn_net *net, int type, const int *in, int n, const char *place) {
  static const char *const done[] = {"added to", "joined to", "multiplied with"};
  static const int kinds[] = {NN_OP_ADD, NN_OP_CONCAT, NN_OP_MUL};
  int turned[2] = {in[1], in[0]}, st;
  nn_value out = net->values[in[0]];
  if (type == NN_MUL && is_factor(&out, &net->values[in[1]])) { /* the map is first */
    in = turned;
    out = net->values[in[0]];
  }
  for (int i = 1; i < n; i++) {
    const nn_value *v = &net->values[in[i]];
    char a[96], b[96];
    if (type == NN_MUL && is_factor(v, &out)) continue;
    if (v->flat != out.flat || v->h != out.h || v->w != out.w || (type != NN_CONCAT && v->c != out.c))
      return ctx->host->fail(ctx, SP_E_SHAPE, "%s: %s cannot be %s %s", place, shape_text(v, a, sizeof a),
                             done[type - NN_ADD], shape_text(&net->values[in[0]], b, sizeof b));
    if (type == NN_CONCAT) out.c += v->c;
  }
  if ((st = check_size(ctx, place, nn_type_name(type), out.c, out.h, out.w))) return st;
  return simple(ctx, net, kinds[type - NN_ADD], in, n, out);
}
