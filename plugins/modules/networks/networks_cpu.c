/* SPDX-License-Identifier: MIT
 * networks_cpu.c - the stages of networks on the CPU as one module:
 * each alone would carry the whole of plugins/kits/nn. */
#include "../../stages/classifier/classifier.h"
#include "../../stages/decoder/decoder.h"
#include "../../stages/encoder/encoder.h"
#include "../../stages/gemm/gemm.h"
#include "../../stages/layers/layers.h"

static const sp_stage_type *const stages[] = {&classifier_cpu, &decoder_cpu, &encoder_cpu,
                                              &gemm_cpu,       &layers_cpu,  NULL};

SP_PLUGIN("networks", "Networks of layers, and products of matrices", stages);
