/* SPDX-License-Identifier: MIT
 * networks_cuda.c - the stages of networks on CUDA as one module:
 * each alone would carry the whole of plugins/kits/nn. */
#include "../../stages/classifier/classifier.h"
#include "../../stages/decoder/decoder.h"
#include "../../stages/encoder/encoder.h"
#include "../../stages/gemm/gemm.h"
#include "../../stages/layers/layers.h"

static const sp_stage_type *const stages[] = {&classifier_cuda, &decoder_cuda, &encoder_cuda,
                                              &gemm_cuda,       &layers_cuda,  NULL};

SP_PLUGIN("networks_cuda", "Networks of layers, and products of matrices, on CUDA", stages);
