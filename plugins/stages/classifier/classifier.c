/* SPDX-License-Identifier: MIT
 * classifier.c - images, or features, to one score per class: ports, parameters and the network, for every device.
 *
 * Names of the weights. `layers`: as nn.Sequential, "0.weight" ... Model "plain": the encoder's plain model, flatten
 * and linear, numbered as nn.Sequential, ReLU and flatten included: the convolutions are "0", "2", "4" ... and with d
 * halvings the last is 2d, flatten 2d + 1 and linear 2d + 2. Model "residual": as torchvision's ResNet, "conv1", "bn1",
 * "layer1.0.conv1" ... "fc". Model "pool": as nn.Sequential of pooling, flatten and linear, "2", also where there is
 * nothing to pool, so that a file fits whatever the size of the map. */
#include "classifier.h"

#include <stdio.h>

enum { PLAIN, RESIDUAL, POOL };
static const char *const models[] = {"plain", "residual", "pool", NULL};

const sp_port classifier_inputs[] = {
    {.name = "image", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x H x W, or N x C features"}, {.name = NULL}};
const sp_port classifier_outputs[] = {{.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "N x classes"},
                                      {.name = NULL}};
#define P(m) offsetof(classifier_params, m)
const sp_param classifier_param_table[] = {
    NN_CLASSES(P(classes)),
    {.name = "model",
     .type = SP_PARAM_CHOICE,
     .offset = P(model),
     .choices = models,
     .doc = "plain: the encoder's plain model, flatten, linear; residual: a 3x3 convolution, residual blocks, mean "
            "over the map, linear; pool: mean over the map, linear, for features"},
    NN_LAYERS(P(layers), "the layers in order, instead of a model; the last gives the classes"),
    NN_WIDTH(P(width), "plain, residual: channels at full resolution, doubled with each halving"),
    NN_LEVELS(P(levels), "how often the map is halved; 0: down to one pixel (plain) or 3 times (residual)"),
    {.name = "blocks",
     .type = SP_PARAM_INT,
     .offset = P(blocks),
     .idef = 2,
     .imin = 1,
     .imax = 64,
     .doc = "residual: blocks of two 3x3 convolutions per resolution"},
    NN_STATISTICS(P(statistics)),
    {.name = NULL}};

static int linear(sp_ctx *ctx, nn_net *net, int v, int64_t classes, const char *name, const char *place) {
  static const nn_layer flatten = {.type = NN_FLATTEN};
  nn_layer l = {.type = NN_LINEAR, .bias = 1, .out = classes};
  v = nn_add_layer(ctx, net, v, &flatten, "", place);
  return v < 0 ? v : nn_add_layer(ctx, net, v, &l, name, place);
}

/* The mean over the map; rows of features are that already. */
static int pooled(sp_ctx *ctx, nn_net *net, int v) {
  static const nn_layer mean = {.type = NN_MEAN};
  return net->values[v].flat ? v : nn_add_layer(ctx, net, v, &mean, "", "the head");
}

static int plain(sp_ctx *ctx, const classifier_params *p, nn_net *net, int v) {
  char name[16], place[32];
  int d = nn_halvings(ctx, net, v, p->levels);
  if (d < 0) return d;
  v = nn_add_plain(ctx, net, v, p->width, d);
  snprintf(name, sizeof name, "%d", 2 * d + 2);
  snprintf(place, sizeof place, "layer %d", 2 * d + 3);
  return v < 0 ? v : linear(ctx, net, v, p->classes, name, place);
}

static int residual(sp_ctx *ctx, const classifier_params *p, nn_net *net, int v) {
  static const int64_t one = 1, two = 2, three = 3;
  nn_layer stem = {.type = NN_CONV, .out = p->width, .kernel = {&three, 1, 0}, .pad = {&one, 1, 0}};
  nn_layer norm = {.type = NN_BATCH_NORM, .eps = 1e-5, .momentum = 0.1}, relu = {.type = NN_RELU};
  nn_layer block = {.type = NN_RESIDUAL, .eps = norm.eps, .momentum = norm.momentum};
  int64_t h = net->values[v].h, w = net->values[v].w;
  int d = p->levels ? (int)p->levels : 3;
  if ((h < w ? h : w) >> d == 0)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "an image of %lld x %lld is too small to be halved %d times; choose a larger one, or a "
                           "smaller `levels`",
                           (long long)h, (long long)w, d);
  v = nn_add_layer(ctx, net, v, &stem, "conv1", "conv1");
  if (v >= 0) v = nn_add_layer(ctx, net, v, &norm, "bn1", "bn1");
  if (v >= 0) v = nn_add_layer(ctx, net, v, &relu, "", "relu");
  for (int i = 0; i <= d && v >= 0; i++)
    for (int b = 0; b < p->blocks && v >= 0; b++) {
      char name[32];
      snprintf(name, sizeof name, "layer%d.%d", i + 1, b);
      block.out = p->width << i;
      block.stride = (sp_ints){i && !b ? &two : &one, 1, 0};
      v = nn_add_layer(ctx, net, v, &block, name, name);
    }
  if (v >= 0) v = pooled(ctx, net, v);
  return v < 0 ? v : linear(ctx, net, v, p->classes, "fc", "fc");
}

static int pool(sp_ctx *ctx, const classifier_params *p, nn_net *net, int v) {
  v = pooled(ctx, net, v);
  return v < 0 ? v : linear(ctx, net, v, p->classes, "2", "layer 3");
}

/* What came out of `layers` is no row of logits: says which layers are missing. */
static int no_logits(sp_ctx *ctx, const nn_value *v, int64_t classes) {
  long long n = classes;
  if (v->flat)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "the last layer gives N x %lld, but N x %lld is wanted (classes = %lld); let it be "
                           "{ \"linear\", %lld }",
                           (long long)v->c, n, n, n);
  return ctx->host->fail(ctx, SP_E_SHAPE,
                         "the last layer gives N x %lld x %lld x %lld, but N x %lld is wanted (classes = %lld); append "
                         "{ \"flatten\" }, { \"linear\", %lld }",
                         (long long)v->c, (long long)v->h, (long long)v->w, n, n, n);
}

int classifier_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b) {
  const classifier_params *p = params;
  int v = nn_input(ctx, net, &plan->in[0].spec[0]);
  if (v < 0) return v;
  b->in[0] = (nn_bind){0, 0, v};
  if (p->layers.n && p->model != PLAIN)
    return ctx->host->fail(ctx, SP_E_INVALID, "give `layers` or model = \"%s\", not both", models[p->model]);
  if (!p->layers.n && p->model != POOL && net->values[v].flat)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "model \"%s\" needs an N x C x H x W image, got N x %lld; for features choose model = "
                           "\"pool\"",
                           models[p->model], (long long)net->values[v].c);
  if (p->layers.n) v = nn_add_layers(ctx, net, &(nn_sources){&v, 1, NULL}, &p->layers, NULL);
  else if (p->model == RESIDUAL) v = residual(ctx, p, net, v);
  else if (p->model == POOL) v = pool(ctx, p, net, v);
  else v = plain(ctx, p, net, v);
  if (v < 0) return v;
  if (!net->values[v].flat || net->values[v].c != p->classes) return no_logits(ctx, &net->values[v], p->classes);
  b->out[0] = (nn_bind){0, 0, v};
  if (p->statistics == NN_KEEP) nn_keep_statistics(net);
  plan->out[0].n = 1;
  return SP_OK;
}
