/* SPDX-License-Identifier: MIT
 * decoder.c - features to one score per pixel and class: ports, parameters and the network, for every device.
 *
 * Names of the weights. `layers`: as nn.Sequential, "0.weight" ... Model "plain": transposed convolutions of kernel 2
 * and stride 2, each followed by ReLU, then a 3x3 convolution, numbered as nn.Sequential, ReLU included: "0", "2", "4"
 * ... Model "unet": "up.L" for the transposed convolution to level L (0 is full resolution), "levels.L.I" for the
 * convolutions and batch norms behind it (I as in the encoder), "head" for the 1x1 convolution at the end. */
#include "decoder.h"

#include <stdio.h>

enum { AUTO, PLAIN, UNET };
static const char *const models[] = {"auto", "plain", "unet", NULL};

const sp_port decoder_inputs[] = {
    {.name = "features", .dtypes = SP_DT(SP_F32), .ndim = 4, .doc = "N x C x H x W, the encoder's last map"},
    {.name = "skips",
     .dtypes = SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_LIST | SP_PORT_OPTIONAL,
     .doc = "the encoder's maps from full resolution on, joined to the maps of the same size; in `layers` skips.1, "
            "skips.2 and so on name them"},
    {.name = NULL}};
const sp_port decoder_outputs[] = {{.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = 4, .doc = "N x classes x H x W"},
                                   {.name = NULL}};
#define P(m) offsetof(decoder_params, m)
const sp_param decoder_param_table[] = {
    NN_CLASSES(P(classes)),
    {.name = "model",
     .type = SP_PARAM_CHOICE,
     .offset = P(model),
     .choices = models,
     .doc = "plain: transposed convolutions down to `width` channels and a 3x3 convolution; unet: 3x3 convolutions "
            "with batch norm at every size; auto: unet where skips are wired"},
    NN_LAYERS(P(layers), "the layers in order, instead of a model; the last gives the classes"),
    NN_WIDTH(P(width), "channels at full resolution"),
    NN_LEVELS(P(levels), "unet: how often the map is doubled; 0: as many times as there are skips"),
    NN_CONVS(P(convs), "unet: 3x3 convolutions per size"),
    NN_STATISTICS(P(statistics)),
    {.name = NULL}};

static const int64_t n0 = 0, n1 = 1, n2 = 2, n3 = 3;
#define ONE(x) \
  { &(x), 1, 0 }

static int plain(sp_ctx *ctx, const decoder_params *p, nn_net *net, int v) {
  nn_layer up = {.type = NN_CONVT, .bias = 1, .kernel = ONE(n2), .stride = ONE(n2), .pad = ONE(n0), .out_pad = ONE(n0)};
  nn_layer head = {.type = NN_CONV, .bias = 1, .out = p->classes, .kernel = ONE(n3), .stride = ONE(n1), .pad = ONE(n1)};
  nn_layer relu = {.type = NN_RELU};
  int64_t c = net->values[v].c;
  int i = 0;
  char name[16], place[32];
  while (c > p->width && c % 2 == 0) c /= 2;
  if (c != p->width)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "%lld channels cannot be halved down to %lld; choose another `width`, or give `layers`",
                           (long long)net->values[v].c, (long long)p->width);
  for (c = net->values[v].c; c > p->width && v >= 0; i++) {
    c /= 2;
    up.out = c;
    snprintf(name, sizeof name, "%d", 2 * i);
    snprintf(place, sizeof place, "layer %d", 2 * i + 1);
    v = nn_add_layer(ctx, net, v, &up, name, place);
    if (v >= 0) v = nn_add_layer(ctx, net, v, &relu, "", place);
  }
  snprintf(name, sizeof name, "%d", 2 * i);
  snprintf(place, sizeof place, "layer %d", 2 * i + 1);
  return v < 0 ? v : nn_add_layer(ctx, net, v, &head, name, place);
}

static int unet(sp_ctx *ctx, const decoder_params *p, nn_net *net, int v, const nn_bind *skips, int n_skips) {
  nn_layer up = {.type = NN_CONVT, .bias = 1, .kernel = ONE(n2), .stride = ONE(n2), .pad = ONE(n0), .out_pad = ONE(n0)};
  nn_layer head = {.type = NN_CONV, .bias = 1, .out = p->classes, .kernel = ONE(n1), .stride = ONE(n1), .pad = ONE(n0)};
  int levels = p->levels ? (int)p->levels : n_skips;
  char name[32], place[48];
  if (!levels)
    return ctx->host->fail(ctx, SP_E_INVALID, "model \"unet\" needs skips (skips = encoder.maps) or `levels`");
  if (n_skips && n_skips != levels)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%d skips are wired, but levels = %d; leave `levels` out or wire as many",
                           n_skips, levels);
  for (int i = levels - 1; i >= 0 && v >= 0; i--) {
    up.out = p->width << i;
    snprintf(name, sizeof name, "up.%d", i);
    v = nn_add_layer(ctx, net, v, &up, name, name);
    snprintf(place, sizeof place, "skips[%d] (counted from 1)", i + 1);
    if (v >= 0 && n_skips) v = nn_add_joined(ctx, net, NN_CONCAT, (int[]){v, skips[i].value}, 2, place);
    snprintf(name, sizeof name, "levels.%d", i);
    if (v >= 0) v = nn_add_convs(ctx, net, v, p->width << i, (int)p->convs, name);
  }
  return v < 0 ? v : nn_add_layer(ctx, net, v, &head, "head", "head");
}

/* The layers may read the features as "input" and the skips as "skips.1" ... */
static int listed(sp_ctx *ctx, const decoder_params *p, nn_net *net, const nn_bind *in, int n) {
  int values[NN_MAX_BINDS];
  for (int i = 0; i < n; i++) values[i] = in[i].value;
  return nn_add_layers(ctx, net, &(nn_sources){values, n, "skips"}, &p->layers, NULL);
}

int decoder_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b) {
  const decoder_params *p = params;
  int v = nn_input(ctx, net, &plan->in[0].spec[0]), n = 1;
  if (v < 0) return v;
  b->in[0] = (nn_bind){0, 0, v};
  for (uint32_t i = 0; i < plan->in[1].n; i++) {
    int s = nn_input(ctx, net, &plan->in[1].spec[i]);
    if (s < 0) return s;
    b->in[n++] = (nn_bind){1, (int)i, s};
  }
  if (n > 1 && !p->layers.n && p->model == PLAIN)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "skips are for model \"unet\" and for `layers`; leave them out, or `model`");
  if (p->layers.n && p->model == UNET)
    return ctx->host->fail(ctx, SP_E_INVALID, "give `layers` or model = \"unet\", not both");
  if (p->layers.n) v = listed(ctx, p, net, b->in, n);
  else if (p->model == UNET || n > 1) v = unet(ctx, p, net, v, b->in + 1, n - 1);
  else v = plain(ctx, p, net, v);
  if (v < 0) return v;
  if (net->values[v].flat || net->values[v].c != p->classes)
    return ctx->host->fail(ctx, SP_E_SHAPE, "the last layer gives %lld channels%s, but classes = %lld",
                           (long long)net->values[v].c, net->values[v].flat ? " without height and width" : "",
                           (long long)p->classes);
  b->n_in = n;
  b->out[0] = (nn_bind){0, 0, v};
  if (p->statistics == NN_KEEP) nn_keep_statistics(net);
  plan->out[0].n = 1;
  return SP_OK;
}
