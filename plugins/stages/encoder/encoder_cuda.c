/* SPDX-License-Identifier: MIT
 * encoder_cuda.c - the stage `encoder` on CUDA. */
#include "encoder.h"

#include "../../kits/nn/cuda/cuda_stage.h"

NN_CUDA_STAGE(encoder, ENCODER_DOC);
