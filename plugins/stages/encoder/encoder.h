/* SPDX-License-Identifier: MIT
 * encoder.h - images to features: ports, parameters and the network, for every device. */
#ifndef ENCODER_H
#define ENCODER_H

#include "../../kits/nn/net/stage.h"

#define ENCODER_DOC "a convolutional network from an image to features, with its maps at every resolution"

typedef struct encoder_params {
  int32_t model;
  int64_t width, levels, convs;
  int32_t down;
  sp_structs layers;
  int32_t statistics; /* enum nn_statistics */
} encoder_params;

extern const sp_port encoder_inputs[], encoder_outputs[];
extern const sp_param encoder_param_table[];
extern const sp_stage_type encoder_cpu, encoder_cuda;

/* Output binds: features, then the maps. */
int encoder_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b);

#endif
