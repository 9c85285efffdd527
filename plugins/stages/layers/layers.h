/* SPDX-License-Identifier: MIT
 * layers.h - any list of layers: ports, parameters and the network, for every device. */
#ifndef LAYERS_H
#define LAYERS_H

#include "../../kits/nn/net/stage.h"

#define LAYERS_DOC "a list or graph of layers, named as PyTorch's nn.Sequential names them unless they say"

typedef struct layers_params {
  sp_structs layers;
  int32_t statistics; /* enum nn_statistics */
} layers_params;

extern const sp_port layers_inputs[], layers_outputs[];
extern const sp_param layers_param_table[];
extern const sp_stage_type layers_cpu, layers_cuda;

int layers_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b);

#endif
