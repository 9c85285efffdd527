/* SPDX-License-Identifier: MIT
 * encoder.c - images to features: ports, parameters and the network, for every device.
 *
 * Names of the weights. `layers`: as nn.Sequential, "0.weight" ... Model "plain": 1x1 convolution, ReLU, then
 * convolutions of kernel 2 and stride 2 with ReLU between, numbered as nn.Sequential, ReLU included: "0", "2", "4" ...
 * Model "unet": "levels.L.I" for the convolutions (I = 0, 3 ...) and batch norms (I = 1, 4 ...) of level L, "down.L"
 * for a convolution that halves the map behind level L. */
#include "encoder.h"

#include <stdio.h>

enum { PLAIN, UNET };
enum { DOWN_MAX, DOWN_CONV };
static const char *const models[] = {"plain", "unet", NULL};
static const char *const downs[] = {"max_pool", "conv", NULL};

const sp_port encoder_inputs[] = {{.name = "image", .dtypes = SP_DT(SP_F32), .ndim = 4, .doc = "N x C x H x W"},
                                  {.name = NULL}};
const sp_port encoder_outputs[] = {
    {.name = "features", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "the last map"},
    {.name = "maps",
     .dtypes = SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_LIST | SP_PORT_OPTIONAL,
     .doc = "the map before each halving, from full resolution on; or, of `layers`, those with `tap`"},
    {.name = NULL}};
#define P(m) offsetof(encoder_params, m)
const sp_param encoder_param_table[] = {
    {.name = "model",
     .type = SP_PARAM_CHOICE,
     .offset = P(model),
     .choices = models,
     .doc = "plain: 1x1 convolution and log2(size) convolutions of stride 2; unet: levels of 3x3 convolutions "
            "with batch norm"},
    NN_LAYERS(P(layers), "the layers in order, instead of a model"),
    NN_WIDTH(P(width), "channels at full resolution, doubled with each halving"),
    NN_LEVELS(P(levels), "how often the map is halved; 0: down to one pixel (plain) or 3 times (unet)"),
    NN_CONVS(P(convs), "unet: 3x3 convolutions per level"),
    {.name = "down",
     .type = SP_PARAM_CHOICE,
     .offset = P(down),
     .choices = downs,
     .doc = "unet: how the map is halved"},
    NN_STATISTICS(P(statistics)),
    {.name = NULL}};

static int unet(sp_ctx *ctx, nn_net *net, const encoder_params *p, int v) {
  static const int64_t two = 2;
  nn_layer pool = {.type = NN_MAX_POOL, .kernel = {&two, 1, 0}, .stride = {&two, 1, 0}};
  nn_layer conv = {.type = NN_CONV, .bias = 1, .kernel = {&two, 1, 0}, .stride = {&two, 1, 0}};
  int d = nn_halvings(ctx, net, v, p->levels ? p->levels : 3);
  if (d < 0) return d;
  for (int i = 0; i <= d && v >= 0; i++) {
    char name[32];
    snprintf(name, sizeof name, "levels.%d", i);
    v = nn_add_convs(ctx, net, v, p->width << i, (int)p->convs, name);
    if (v < 0 || i == d) break;
    snprintf(name, sizeof name, "down.%d", i);
    conv.out = p->width << i;
    v = nn_add_layer(ctx, net, v, p->down == DOWN_MAX ? &pool : &conv, name, name);
  }
  return v;
}

static int network(sp_ctx *ctx, const encoder_params *p, nn_net *net, int v, nn_taps *taps) {
  int d;
  if (p->layers.n) return nn_add_layers(ctx, net, &(nn_sources){&v, 1, NULL}, &p->layers, taps);
  if (p->model == UNET) return unet(ctx, net, p, v);
  d = nn_halvings(ctx, net, v, p->levels);
  return d < 0 ? d : nn_add_plain(ctx, net, v, p->width, d);
}

/* The values that something makes smaller, but the image. */
static int halved(sp_ctx *ctx, const nn_net *net, int image, nn_taps *taps) {
  for (int i = 0; i < net->n_ops; i++) {
    int in = net->ops[i].in, known = in == image;
    const nn_value *a = &net->values[in], *b = &net->values[net->ops[i].out];
    for (int j = 0; j < taps->n; j++) known |= taps->value[j] == in;
    if (known || b->flat || b->h >= a->h) continue;
    if (taps->n == SP_MAX_LIST)
      return ctx->host->fail(ctx, SP_E_INVALID,
                             "more than %d layers make the map smaller; say with `tap` which maps are wanted",
                             SP_MAX_LIST);
    taps->value[taps->n++] = in;
  }
  return SP_OK;
}

int encoder_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b) {
  const encoder_params *p = params;
  nn_taps taps = {0};
  int v = nn_input(ctx, net, &plan->in[0].spec[0]), st;
  if (v < 0) return v;
  b->in[0] = (nn_bind){0, 0, v};
  if (p->layers.n && p->model == UNET)
    return ctx->host->fail(ctx, SP_E_INVALID, "give `layers` or model = \"unet\", not both");
  v = network(ctx, p, net, v, &taps);
  if (v < 0) return v;
  if (!taps.n && (st = halved(ctx, net, b->in[0].value, &taps))) return st;
  b->out[0] = (nn_bind){0, 0, v};
  if (p->statistics == NN_KEEP) nn_keep_statistics(net);
  plan->out[0].n = 1;
  return nn_bind_taps(ctx, plan, &taps, b);
}
