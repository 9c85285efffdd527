/* SPDX-License-Identifier: MIT
 * classifier.h - images, or features, to one score per class: ports, parameters and the network, for every device. */
#ifndef CLASSIFIER_H
#define CLASSIFIER_H

#include "../../kits/nn/net/stage.h"

#define CLASSIFIER_DOC "a network from an image, or from an encoder's features, to one score per class"

typedef struct classifier_params {
  int64_t classes;
  int32_t model;
  int64_t width, levels, blocks;
  sp_structs layers;
  int32_t statistics; /* enum nn_statistics */
} classifier_params;

extern const sp_port classifier_inputs[], classifier_outputs[];
extern const sp_param classifier_param_table[];
extern const sp_stage_type classifier_cpu, classifier_cuda;

int classifier_build(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b);

#endif
