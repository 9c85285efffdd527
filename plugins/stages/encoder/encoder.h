/* SPDX-License-Identifier: MIT
 * encoder.h - images to features: ports, parameters and the network, for every device. */
#ifndef ENCODER_H
#define ENCODER_H

#include "../../kits/nn/net.h"

#define ENCODER_DOC "a convolutional network from an image to features, with its maps at every resolution"

typedef struct encoder_params {
  int32_t model;
  int64_t width, depth, convs;
  int32_t down;
  sp_structs layers;
} encoder_params;

enum { ENCODER_MAX_OUT = SP_MAX_LIST + 1 };

extern const sp_port encoder_inputs[], encoder_outputs[];
extern const sp_param encoder_param_table[];

/* Output binds: features, then the maps; *n_out of them. */
int encoder_build(sp_ctx *ctx, const encoder_params *p, const sp_plan *plan, nn_net *net, nn_bind *in, nn_bind *out,
                  int *n_out);

#endif
