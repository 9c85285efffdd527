/* SPDX-License-Identifier: MIT
 * net.c - builds the list of ops: shape inference, the list of weights, the checks of a layer's parameters. */
#include "net.h"

#include "axis.h"

#include <spcore/rng.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXTENT INT64_C(1048576) /* of channels, height and width each */
#define MAX_NAME 96

static const char *const types[] = {
    "conv",         "conv_transpose", "max_pool", "avg_pool", "batch_norm", "relu",       "linear",
    "flatten",      "residual",       "add",      "concat",   "mul",        "mean",       "sigmoid",
    "hard_sigmoid", "hard_swish",     "silu",     "upsample", "dropout",    "group_norm", NULL};
static const char *const modes[] = {"nearest", "bilinear", NULL};
static const sp_param from_fields[] = {{.name = "name",
                                        .type = SP_PARAM_STRING,
                                        .flags = SP_PARAM_REQUIRED | SP_PARAM_FIRST,
                                        .doc = "of an earlier layer"},
                                       {.name = NULL}};

#define FIELD(m) offsetof(nn_layer, m)
/* One number, or {height, width}. */
#define PAIR(m, max, of, words)                                                                                \
  {                                                                                                            \
    .name = #m, .type = SP_PARAM_INTS, .offset = FIELD(m), .imin = 0, .imax = max, .def_str = "0", .min_n = 1, \
    .max_n = 2, .unit = of, .doc = words                                                                       \
  }
#define SIDES(m, words) PAIR(m, 1024, "px", words)

const sp_param nn_layer_fields[] = {
    {.name = "type",
     .type = SP_PARAM_CHOICE,
     .flags = SP_PARAM_REQUIRED | SP_PARAM_FIRST,
     .offset = FIELD(type),
     .choices = types,
     .doc = "what the layer does"},
    {.name = "out",
     .type = SP_PARAM_INT,
     .flags = SP_PARAM_FIRST,
     .offset = FIELD(out),
     .imin = 0,
     .imax = MAX_EXTENT,
     .doc = "output channels (conv, conv_transpose, residual), features (linear) or groups (group_norm)"},
    SIDES(kernel, "kernel size, or {height, width}; 0: 3 for conv, 2 for conv_transpose and pooling"),
    SIDES(stride, "step; 0: 1 for conv and residual, 2 for conv_transpose, the kernel for pooling"),
    SIDES(pad, "zeros added on each side"),
    SIDES(out_pad, "conv_transpose: rows and columns added at the bottom and right"),
    SIDES(dilation, "conv, conv_transpose: step between the pixels under the kernel; 0: 1"),
    {.name = "groups",
     .type = SP_PARAM_INT,
     .offset = FIELD(groups),
     .idef = 1,
     .imin = 1,
     .imax = MAX_EXTENT,
     .doc = "conv, conv_transpose: parts of the channels that are convolved apart; as many as channels: depthwise"},
    PAIR(scale, 1024, NULL, "upsample: how many times as large"),
    PAIR(size, MAX_EXTENT, "px", "upsample: size of the result"),
    {.name = "like", .type = SP_PARAM_STRING, .offset = FIELD(like), .doc = "upsample: a layer whose size it gets"},
    {.name = "mode", .type = SP_PARAM_CHOICE, .offset = FIELD(mode), .choices = modes, .doc = "upsample: how"},
    {.name = "align_corners",
     .type = SP_PARAM_BOOL,
     .offset = FIELD(align_corners),
     .doc = "upsample, bilinear: the middles of corner pixels stay in place, not the corners of the map"},
    {.name = "p",
     .type = SP_PARAM_FLOAT,
     .offset = FIELD(p),
     .def = 0.5,
     .min = 0,
     .max = 1,
     .doc = "dropout: how probable it is that an element, or a map, is dropped"},
    {.name = "maps",
     .type = SP_PARAM_BOOL,
     .offset = FIELD(maps),
     .doc = "dropout: drop all of a sample's channel or nothing of it"},
    {.name = "name",
     .type = SP_PARAM_STRING,
     .offset = FIELD(name),
     .doc = "what `from` and its weights are called by; empty: its place in the list, from 0"},
    {.name = "from",
     .type = SP_PARAM_LIST,
     .offset = FIELD(from),
     .fields = from_fields,
     .fields_size = sizeof(const char *),
     .max_n = NN_MAX_INS,
     .doc = "names of the earlier layers that it reads, \"input\", or in a decoder \"skips.1\" ...; none: the layer "
            "before"},
    {.name = "tap", .type = SP_PARAM_BOOL, .offset = FIELD(tap), .doc = "its result is one of the stage's maps"},
    {.name = "bias",
     .type = SP_PARAM_BOOL,
     .offset = FIELD(bias),
     .idef = 1,
     .doc = "conv, conv_transpose, linear: with a bias"},
    {.name = "eps",
     .type = SP_PARAM_FLOAT,
     .offset = FIELD(eps),
     .def = 1e-5,
     .min = 1e-12,
     .max = 1,
     .doc = "batch_norm, group_norm, residual: added to the variance"},
    {.name = "momentum",
     .type = SP_PARAM_FLOAT,
     .offset = FIELD(momentum),
     .def = 0.1,
     .min = 0,
     .max = 1,
     .doc = "batch_norm, residual: weight of the new batch in the running statistics"},
    {.name = NULL}};

const char *nn_kind_name(int kind) {
  static const char *const names[] = {"conv",     "conv_transpose", "max_pool",     "avg_pool",   "batch_norm",
                                      "relu",     "linear",         "flatten",      "add",        "concat",
                                      "mul",      "sigmoid",        "hard_sigmoid", "hard_swish", "silu",
                                      "upsample", "dropout",        "group_norm"};
  return names[kind];
}

const char *nn_type_name(int type) { return types[type]; }

static int nomem(sp_ctx *ctx) { return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's layers"); }

static int grow(void *array, size_t *cap, size_t n, size_t size) {
  void **a = array;
  size_t c = *cap ? *cap * 2 : 16;
  void *p;
  if (n <= *cap) return 0;
  p = realloc(*a, c * size);
  if (!p) return -1;
  *a = p;
  *cap = c;
  return 0;
}

static int add_value(sp_ctx *ctx, nn_net *net, nn_value v) {
  if (grow(&net->values, &net->cap_values, (size_t)net->n_values + 1, sizeof *net->values)) return nomem(ctx);
  net->values[net->n_values] = v;
  return net->n_values++;
}

static int add_op(sp_ctx *ctx, nn_net *net, const nn_op *op) {
  if (grow(&net->ops, &net->cap_ops, (size_t)net->n_ops + 1, sizeof *net->ops)) return nomem(ctx);
  net->ops[net->n_ops++] = *op;
  return SP_OK;
}

/* Appends op, which makes a value like `out`; returns that. */
static int make(sp_ctx *ctx, nn_net *net, nn_op *op, nn_value out) {
  int st;
  op->out = add_value(ctx, net, out);
  if (op->out < 0) return op->out;
  st = add_op(ctx, net, op);
  return st ? st : op->out;
}

static int add_weight(sp_ctx *ctx, nn_net *net, const char *prefix, const char *name, const sp_weight *w) {
  size_t bytes = strlen(prefix) + strlen(name) + 2;
  char *s;
  if (grow(&net->weights, &net->cap_weights, (size_t)net->n_weights + 1, sizeof *net->weights) ||
      grow(&net->names, &net->cap_names, (size_t)net->n_weights + 1, sizeof *net->names))
    return nomem(ctx);
  s = malloc(bytes);
  if (!s) return nomem(ctx);
  snprintf(s, bytes, "%s.%s", prefix, name);
  net->names[net->n_weights] = s;
  net->weights[net->n_weights] = *w;
  net->weights[net->n_weights++].name = s;
  return SP_OK;
}

static int add_param(sp_ctx *ctx, nn_net *net, const char *prefix, const char *name, int ndim, const int64_t *shape,
                     uint32_t flags, int init, double value) {
  sp_weight w = {.flags = flags, .init = init, .init_value = value};
  w.spec.dtype = SP_F32;
  w.spec.ndim = ndim;
  for (int i = 0; i < ndim; i++) w.spec.shape[i] = shape[i];
  return add_weight(ctx, net, prefix, name, &w);
}

static int has_weights(const nn_net *net) { return net->n_weights; }

int nn_input(sp_ctx *ctx, nn_net *net, const sp_spec *spec) {
  if (spec->ndim != 4 && spec->ndim != 2)
    return ctx->host->fail(ctx, SP_E_SHAPE, "expected N x C x H x W or N x C, got %d dimensions", (int)spec->ndim);
  for (int i = 1; i < spec->ndim; i++)
    if (spec->shape[i] < 1 || spec->shape[i] > MAX_EXTENT)
      return ctx->host->fail(ctx, SP_E_SHAPE, "dimension %d of the input is %lld, expected 1 to %lld", i,
                             (long long)spec->shape[i], (long long)MAX_EXTENT);
  if (spec->ndim == 2) return add_value(ctx, net, (nn_value){spec->shape[1], 1, 1, 1});
  return add_value(ctx, net, (nn_value){spec->shape[1], spec->shape[2], spec->shape[3], 0});
}

/* ---- parameters of one layer ------------------------------------------------------------------------------------- */
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
  return ctx->host->fail(ctx, SP_E_INVALID, "%s (%s): `out` is missing; write { \"%s\", %s }", place, types[l->type],
                         types[l->type], l->type == NN_GROUP_NORM ? "GROUPS" : "CHANNELS");
}

static int check_size(sp_ctx *ctx, const char *place, const char *type, int64_t c, int64_t h, int64_t w) {
  if (h <= MAX_EXTENT && w <= MAX_EXTENT && h * w <= INT64_C(1) << 32 && c * h * w <= INT64_C(1) << 36) return SP_OK;
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

static int conv(sp_ctx *ctx, nn_net *net, int in, const nn_op *proto, int64_t out, const char *name,
                const char *place) {
  nn_value v = net->values[in];
  nn_op op = *proto;
  int t = op.kind == NN_OP_CONVT, st;
  const char *type = nn_kind_name(op.kind);
  int64_t hw[2] = {v.h, v.w}, o[2], shape[4] = {t ? v.c : out, t ? out : v.c, op.k[0], op.k[1]}, fan_in;
  if (!op.groups) op.groups = 1;
  if ((st = need_map(ctx, net, in, place, type)) || (st = check_groups(ctx, op.groups, v.c, out, place, type)))
    return st;
  shape[1] /= op.groups;
  for (int i = 0; i < 2; i++) {
    const char *axis = i ? "wide" : "high";
    int64_t under;
    if (!op.dil[i] || op.k[i] == 1) op.dil[i] = 1;
    under = (int64_t)op.dil[i] * (op.k[i] - 1) + 1;
    if (t) {
      if (op.op[i] && op.op[i] >= op.s[i])
        return ctx->host->fail(ctx, SP_E_INVALID, "%s (%s): out_pad %d must be below the stride %d", place, type,
                               op.op[i], op.s[i]);
      o[i] = (hw[i] - 1) * op.s[i] - 2 * op.p[i] + under + op.op[i];
      if (o[i] < 1)
        return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): pad %d leaves nothing of a map %lld %s", place, type, op.p[i],
                               (long long)hw[i], axis);
    } else {
      if (under > hw[i] + 2 * op.p[i])
        return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): kernel %d%s is larger than the map, %lld %s with pad %d",
                               place, type, op.k[i], dilated(&op, i, (char[32]){0}), (long long)hw[i], axis, op.p[i]);
      o[i] = (hw[i] + 2 * op.p[i] - under) / op.s[i] + 1;
    }
  }
  if ((st = check_size(ctx, place, type, out, o[0], o[1]))) return st;
  if (v.c / op.groups * out > (INT64_C(1) << 34) / (op.k[0] * op.k[1]))
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s (%s): %lld x %lld channels of %d x %d make too many weights", place,
                           type, (long long)v.c, (long long)out, op.k[0], op.k[1]);
  fan_in = shape[1] * op.k[0] * op.k[1];
  op.w = has_weights(net);
  st = add_param(ctx, net, name, "weight", 4, shape, SP_WEIGHT_TRAINED, SP_INIT_UNIFORM, (double)fan_in);
  if (!st && op.bias)
    st = add_param(ctx, net, name, "bias", 1, &out, SP_WEIGHT_TRAINED, SP_INIT_UNIFORM, (double)fan_in);
  if (st) return st;
  op.in = in;
  return make(ctx, net, &op, (nn_value){out, o[0], o[1], 0});
}

static int batch_norm(sp_ctx *ctx, nn_net *net, int in, double eps, double momentum, const char *name) {
  nn_value v = net->values[in];
  nn_op op = {.kind = NN_OP_BATCH_NORM, .in = in, .w = has_weights(net), .eps = eps, .momentum = momentum};
  sp_weight count = {.flags = SP_WEIGHT_STATE, .init = SP_INIT_CONST};
  int st;
  count.spec.dtype = SP_I64;
  if ((st = add_param(ctx, net, name, "weight", 1, &v.c, SP_WEIGHT_TRAINED, SP_INIT_CONST, 1)) ||
      (st = add_param(ctx, net, name, "bias", 1, &v.c, SP_WEIGHT_TRAINED, SP_INIT_CONST, 0)) ||
      (st = add_param(ctx, net, name, "running_mean", 1, &v.c, SP_WEIGHT_STATE, SP_INIT_CONST, 0)) ||
      (st = add_param(ctx, net, name, "running_var", 1, &v.c, SP_WEIGHT_STATE, SP_INIT_CONST, 1)) ||
      (st = add_weight(ctx, net, name, "num_batches_tracked", &count)))
    return st;
  return make(ctx, net, &op, v);
}

static int group_norm(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  nn_value v = net->values[in];
  nn_op op = {
      .kind = NN_OP_GROUP_NORM, .in = in, .w = has_weights(net), .bias = 1, .groups = (int)l->out, .eps = l->eps};
  int st = check_groups(ctx, l->out, v.c, v.c, place, "group_norm");
  if (st || (st = add_param(ctx, net, name, "weight", 1, &v.c, SP_WEIGHT_TRAINED, SP_INIT_CONST, 1)) ||
      (st = add_param(ctx, net, name, "bias", 1, &v.c, SP_WEIGHT_TRAINED, SP_INIT_CONST, 0)))
    return st;
  return make(ctx, net, &op, v);
}

static int simple(sp_ctx *ctx, nn_net *net, int kind, const int *in, int n, nn_value out) {
  nn_op op = {.kind = kind, .in = in[0], .n_more = n - 1, .w = -1};
  for (int i = 1; i < n; i++) op.more[i - 1] = in[i];
  return make(ctx, net, &op, out);
}

static int relu(sp_ctx *ctx, nn_net *net, int in) { return simple(ctx, net, NN_OP_RELU, &in, 1, net->values[in]); }

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
  return make(ctx, net, &op, (nn_value){v.c, o[0], o[1], 0});
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
  return make(ctx, net, &op, v);
}

static int dropout(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name) {
  nn_op op = {.kind = NN_OP_DROPOUT, .in = in, .w = -1, .drop = l->p, .maps = l->maps, .salt = sp_rng_key(0, name)};
  return make(ctx, net, &op, net->values[in]);
}

static int linear(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  nn_value v = net->values[in];
  int64_t shape[2] = {l->out, v.c};
  nn_op op = {.kind = NN_OP_LINEAR, .in = in, .w = has_weights(net), .bias = l->bias};
  int st;
  if (!v.flat)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "%s (linear): needs an N x C input, got N x %lld x %lld x %lld; put "
                           "{ \"flatten\" } before it",
                           place, (long long)v.c, (long long)v.h, (long long)v.w);
  if (v.c > (INT64_C(1) << 34) / l->out)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s (linear): %lld x %lld features make too many weights", place,
                           (long long)v.c, (long long)l->out);
  st = add_param(ctx, net, name, "weight", 2, shape, SP_WEIGHT_TRAINED, SP_INIT_UNIFORM, (double)v.c);
  if (!st && op.bias) st = add_param(ctx, net, name, "bias", 1, shape, SP_WEIGHT_TRAINED, SP_INIT_UNIFORM, (double)v.c);
  if (st) return st;
  return make(ctx, net, &op, (nn_value){l->out, 1, 1, 1});
}

/* As torchvision's BasicBlock: conv1, bn1, relu, conv2, bn2, plus the input or its projection, relu. */
static int residual(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  nn_op c3 = {.kind = NN_OP_CONV, .k = {3, 3}, .s = {1, 1}, .p = {1, 1}}, c1 = c3;
  char sub[MAX_NAME];
  int v, skip = in, st;
  if ((st = need_map(ctx, net, in, place, "residual"))) return st;
  pair(&l->stride, 1, c3.s);
  memcpy(c1.s, c3.s, sizeof c1.s);
#define NAME(part) (snprintf(sub, sizeof sub, "%s." part, name), sub)
  if ((v = conv(ctx, net, in, &c3, l->out, NAME("conv1"), place)) < 0) return v;
  if ((v = batch_norm(ctx, net, v, l->eps, l->momentum, NAME("bn1"))) < 0) return v;
  if ((v = relu(ctx, net, v)) < 0) return v;
  c3.s[0] = c3.s[1] = 1;
  if ((v = conv(ctx, net, v, &c3, l->out, NAME("conv2"), place)) < 0) return v;
  if ((v = batch_norm(ctx, net, v, l->eps, l->momentum, NAME("bn2"))) < 0) return v;
  if (c1.s[0] != 1 || c1.s[1] != 1 || net->values[in].c != l->out) {
    c1.k[0] = c1.k[1] = 1;
    c1.p[0] = c1.p[1] = 0;
    if ((skip = conv(ctx, net, in, &c1, l->out, NAME("downsample.0"), place)) < 0) return skip;
    if ((skip = batch_norm(ctx, net, skip, l->eps, l->momentum, NAME("downsample.1"))) < 0) return skip;
  }
#undef NAME
  if ((v = simple(ctx, net, NN_OP_ADD, (int[]){v, skip}, 2, net->values[v])) < 0) return v;
  return relu(ctx, net, v);
}

int nn_add_layer(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  nn_op op = {.in = in, .w = -1, .bias = l->bias};
  nn_value v = net->values[in];
  int st;
  switch (l->type) {
    case NN_CONV:
    case NN_CONVT:
      if ((st = need_out(ctx, l, place))) return st;
      op.kind = l->type == NN_CONV ? NN_OP_CONV : NN_OP_CONVT;
      pair(&l->kernel, l->type == NN_CONV ? 3 : 2, op.k);
      pair(&l->stride, l->type == NN_CONV ? 1 : 2, op.s);
      pair(&l->pad, 0, op.p);
      pair(&l->out_pad, 0, op.op);
      pair(&l->dilation, 1, op.dil);
      op.groups = (int)l->groups;
      return conv(ctx, net, in, &op, l->out, name, place);
    case NN_MAX_POOL:
    case NN_AVG_POOL:
      op.kind = l->type == NN_MAX_POOL ? NN_OP_MAX_POOL : NN_OP_AVG_POOL;
      pair(&l->kernel, 2, op.k);
      for (int i = 0; i < 2; i++) {
        int s[2];
        pair(&l->stride, op.k[i], s);
        op.s[i] = s[i];
      }
      pair(&l->pad, 0, op.p);
      return pool(ctx, net, in, &op, place);
    case NN_MEAN: return mean(ctx, net, in, place);
    case NN_SIGMOID:
    case NN_HARD_SIGMOID:
    case NN_HARD_SWISH:
    case NN_SILU: return simple(ctx, net, NN_OP_SIGMOID + l->type - NN_SIGMOID, &in, 1, v);
    case NN_UPSAMPLE: return upsample(ctx, net, in, l, place);
    case NN_DROPOUT: return dropout(ctx, net, in, l, name);
    case NN_BATCH_NORM:
      if (l->out && l->out != v.c)
        return ctx->host->fail(ctx, SP_E_SHAPE, "%s (batch_norm): made for %lld channels, the input has %lld", place,
                               (long long)l->out, (long long)v.c);
      return batch_norm(ctx, net, in, l->eps, l->momentum, name);
    case NN_GROUP_NORM:
      if ((st = need_out(ctx, l, place))) return st;
      return group_norm(ctx, net, in, l, name, place);
    case NN_RELU: return relu(ctx, net, in);
    case NN_LINEAR:
      if ((st = need_out(ctx, l, place))) return st;
      return linear(ctx, net, in, l, name, place);
    case NN_FLATTEN:
      if (v.flat) return in;
      return simple(ctx, net, NN_OP_FLATTEN, &in, 1, (nn_value){v.c * v.h * v.w, 1, 1, 1});
    default:
      if ((st = need_out(ctx, l, place))) return st;
      return residual(ctx, net, in, l, name, place);
  }
}

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
  if ((st = check_size(ctx, place, types[type], out.c, out.h, out.w))) return st;
  return simple(ctx, net, kinds[type - NN_ADD], in, n, out);
}

int nn_add_convs(sp_ctx *ctx, nn_net *net, int in, int64_t out, int count, const char *prefix) {
  nn_op c3 = {.kind = NN_OP_CONV, .k = {3, 3}, .s = {1, 1}, .p = {1, 1}};
  for (int i = 0; i < count && in >= 0; i++) {
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%s.%d", prefix, 3 * i);
    in = conv(ctx, net, in, &c3, out, name, prefix);
    snprintf(name, sizeof name, "%s.%d", prefix, 3 * i + 1);
    if (in >= 0) in = batch_norm(ctx, net, in, 1e-5, 0.1, name);
    if (in >= 0) in = relu(ctx, net, in);
  }
  return in;
}

int nn_halvings(sp_ctx *ctx, const nn_net *net, int in, int64_t depth) {
  const nn_value *v = &net->values[in];
  int64_t side = v->h < v->w ? v->h : v->w;
  int d = (int)depth;
  if (!d)
    while (side >> (d + 1)) d++;
  if (v->h % ((int64_t)1 << d) || v->w % ((int64_t)1 << d))
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "an image of %lld x %lld cannot be halved %d times; choose a size that "
                           "is a multiple of %lld, or another depth",
                           (long long)v->h, (long long)v->w, d, (long long)1 << d);
  return d;
}

int nn_add_plain(sp_ctx *ctx, nn_net *net, int in, int64_t width, int halvings) {
  static const int64_t one = 1, two = 2;
  nn_layer c = {.type = NN_CONV, .bias = 1, .out = width, .kernel = {&one, 1, 0}, .stride = {&one, 1, 0}};
  int v = in;
  for (int i = 0; i <= halvings && v >= 0; i++) {
    char name[16], place[32];
    snprintf(name, sizeof name, "%d", 2 * i);
    snprintf(place, sizeof place, "layer %d", 2 * i + 1);
    if (i) c.kernel.v = c.stride.v = &two;
    v = nn_add_layer(ctx, net, v, &c, name, place);
    if (v >= 0 && i < halvings) v = relu(ctx, net, v);
    c.out *= 2;
  }
  return v;
}

static int reads(const nn_op *op, int value) {
  int n = 0;
  for (int i = 0; i <= op->n_more; i++) n += NN_IN(op, i) == value;
  return n;
}

void nn_fuse(nn_net *net, const uint8_t *keep) {
  int n = 0;
  for (int i = 0; i < net->n_ops; i++) {
    nn_op *op = &net->ops[i];
    nn_op *prev = NULL;
    int uses = 0;
    for (int j = 0; j < n; j++)
      if (net->ops[j].out == op->in) prev = &net->ops[j];
    for (int j = 0; j < net->n_ops; j++)
      if (j >= i || j < n) uses += reads(&net->ops[j], op->in);
    if (op->kind == NN_OP_RELU && prev && uses == 1 && !keep[op->in] && !prev->relu &&
        (prev->kind == NN_OP_CONV || prev->kind == NN_OP_CONVT || prev->kind == NN_OP_BATCH_NORM ||
         prev->kind == NN_OP_GROUP_NORM || prev->kind == NN_OP_LINEAR || prev->kind == NN_OP_ADD)) {
      prev->relu = 1;
      prev->out = op->out;
      continue;
    }
    net->ops[n++] = *op;
  }
  net->n_ops = n;
}

void nn_spec(const nn_net *net, int v, int64_t n, sp_spec *spec) {
  const nn_value *x = &net->values[v];
  *spec = (sp_spec){.dtype = SP_F32, .ndim = x->flat ? 2 : 4, .shape = {n, x->c}};
  if (x->flat) return;
  spec->shape[2] = x->h;
  spec->shape[3] = x->w;
}

void nn_clear(nn_net *net) {
  for (int i = 0; i < net->n_weights; i++) free(net->names[i]);
  free(net->names);
  free(net->weights);
  free(net->ops);
  free(net->values);
  memset(net, 0, sizeof *net);
}
