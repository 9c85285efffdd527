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
const sp_port encoder_outputs[] = {{.name = "features", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "the last map"},
                                   {.name = "maps",
                                    .dtypes = SP_DT(SP_F32),
                                    .ndim = 4,
                                    .flags = SP_PORT_LIST | SP_PORT_OPTIONAL,
                                    .doc = "the map before each halving, from full resolution on"},
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
    NN_DEPTH(P(depth), "how often the map is halved; 0: down to one pixel (plain) or 3 times (unet)"),
    NN_CONVS(P(convs), "unet: 3x3 convolutions per level"),
    {.name = "down",
     .type = SP_PARAM_CHOICE,
     .offset = P(down),
     .choices = downs,
     .doc = "unet: how the map is halved"},
    {.name = NULL}};

typedef struct maker {
  sp_ctx *ctx;
  nn_net *net;
  nn_bind *out;
  int n_out;
} maker;

/* The value before a layer that makes the map smaller is one of the maps. */
static int layer(void *arg, int in, const nn_layer *l, const char *name, const char *place) {
  maker *m = arg;
  int out = nn_add_layer(m->ctx, m->net, in, l, name, place);
  if (out < 0 || in == m->out[0].value) return out;
  if (m->net->values[out].flat || m->net->values[out].h >= m->net->values[in].h) return out;
  if (m->n_out == NN_MAX_BINDS)
    return m->ctx->host->fail(m->ctx, SP_E_INVALID, "more than %d layers that make the map smaller", SP_MAX_LIST);
  m->out[m->n_out] = (nn_bind){1, m->n_out - 1, in};
  m->n_out++;
  return out;
}

static int plain(maker *m, const encoder_params *p, int v) {
  int d = nn_halvings(m->ctx, m->net, v, p->depth);
  return d < 0 ? d : nn_add_plain(m->ctx, m->net, v, p->width, d, layer, m);
}

static int unet(maker *m, const encoder_params *p, int v) {
  static const int64_t two = 2;
  nn_layer pool = {.type = NN_MAX_POOL, .kernel = {&two, 1, 0}, .stride = {&two, 1, 0}};
  nn_layer conv = {.type = NN_CONV, .bias = 1, .kernel = {&two, 1, 0}, .stride = {&two, 1, 0}};
  int d = nn_halvings(m->ctx, m->net, v, p->depth ? p->depth : 3);
  if (d < 0) return d;
  conv.out = p->width;
  for (int i = 0; i <= d && v >= 0; i++) {
    char name[32];
    snprintf(name, sizeof name, "levels.%d", i);
    v = nn_add_convs(m->ctx, m->net, v, p->width << i, (int)p->convs, name);
    if (v < 0 || i == d) break;
    snprintf(name, sizeof name, "down.%d", i);
    conv.out = p->width << i;
    v = layer(m, v, p->down == DOWN_MAX ? &pool : &conv, name, name);
  }
  return v;
}

int encoder_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b) {
  const encoder_params *p = params;
  maker m = {ctx, net, b->out, 1};
  const nn_layer *l = p->layers.v;
  int v = nn_input(ctx, net, &plan->in[0].spec[0]);
  if (v < 0) return v;
  b->in[0] = (nn_bind){0, 0, v};
  b->out[0] = b->in[0]; /* so that layer() knows the image */
  if (p->layers.n && p->model == UNET)
    return ctx->host->fail(ctx, SP_E_INVALID, "give `layers` or model = \"unet\", not both");
  for (uint32_t i = 0; i < p->layers.n && v >= 0; i++) {
    char name[16], place[32];
    snprintf(name, sizeof name, "%u", i);
    snprintf(place, sizeof place, "layer %u", i + 1);
    v = layer(&m, v, &l[i], name, place);
  }
  if (!p->layers.n) v = p->model == UNET ? unet(&m, p, v) : plain(&m, p, v);
  if (v < 0) return v;
  b->out[0] = (nn_bind){0, 0, v};
  b->n_out = m.n_out;
  plan->out[0].n = 1;
  plan->out[1].n = (uint32_t)(m.n_out - 1);
  if (plan->out[1].n > plan->out[1].cap)
    return ctx->host->fail(ctx, SP_E_INVALID, "%u maps, at most %u are possible", plan->out[1].n, plan->out[1].cap);
  return SP_OK;
}
