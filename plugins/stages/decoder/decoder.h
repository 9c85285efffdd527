/* SPDX-License-Identifier: MIT
 * decoder.h - features to one score per pixel and class: ports, parameters and the network, for every device. */
#ifndef DECODER_H
#define DECODER_H

#include "../../kits/nn/net/stage.h"

#define DECODER_DOC "a network of transposed convolutions from features to class scores per pixel"

typedef struct decoder_params {
  int64_t classes, width, levels, convs;
  int32_t model;
  sp_structs layers;
  int32_t statistics; /* enum nn_statistics */
} decoder_params;

extern const sp_port decoder_inputs[], decoder_outputs[];
extern const sp_param decoder_param_table[];
extern const sp_stage_type decoder_cpu, decoder_cuda;

/* Input binds: features, then the skips. */
int decoder_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b);

#endif
