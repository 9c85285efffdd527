/* SPDX-License-Identifier: MIT
 * layers.c - any list of layers: ports, parameters and the network, for every device. */
#include "layers.h"

const sp_port layers_inputs[] = {
    {.name = "image", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x H x W, or N x C for linear layers"},
    {.name = NULL}};
const sp_port layers_outputs[] = {
    {.name = "features", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "what the last layer gives"},
    {.name = "maps",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_LIST | SP_PORT_OPTIONAL,
     .doc = "what the layers with `tap` give, in their order"},
    {.name = NULL}};
const sp_param layers_param_table[] = {
    {.name = "layers",
     .type = SP_PARAM_LIST,
     .flags = SP_PARAM_REQUIRED,
     .offset = offsetof(layers_params, layers),
     .fields = nn_layer_fields,
     .fields_size = sizeof(nn_layer),
     .min_n = 1,
     .doc = "the layers in order: { { \"conv\", 16, kernel = 3, pad = 1 }, { \"relu\" } }; `from` makes them a graph"},
    NN_STATISTICS(offsetof(layers_params, statistics)),
    {.name = NULL}};

int layers_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b) {
  const layers_params *p = params;
  nn_taps taps = {0};
  int v = nn_input(ctx, net, &plan->in[0].spec[0]);
  b->in[0] = (nn_bind){0, 0, v};
  if (v >= 0) v = nn_add_layers(ctx, net, &(nn_sources){&v, 1, NULL}, &p->layers, &taps);
  b->out[0] = (nn_bind){0, 0, v};
  if (v < 0) return v;
  if (p->statistics == NN_KEEP) nn_keep_statistics(net);
  plan->out[0].n = 1;
  return nn_bind_taps(ctx, plan, &taps, b);
}
