/* SPDX-License-Identifier: MIT
 * decoder_cuda.c - the stage `decoder` on CUDA. */
#include "decoder.h"

#include "../../kits/nn/cuda/cuda_stage.h"

NN_CUDA_STAGE(decoder, DECODER_DOC);
