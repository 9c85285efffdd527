/* SPDX-License-Identifier: MIT
 * layers_cuda.c - the stage `layers` on CUDA. */
#include "layers.h"

#include "../../kits/nn/cuda/cuda_stage.h"

NN_CUDA_STAGE(layers, LAYERS_DOC);
