/* SPDX-License-Identifier: MIT
 * decoder_cpu.c - the stage `decoder` on the CPU. */
#include "decoder.h"

#include "../../kits/nn/cpu/cpu_stage.h"

NN_CPU_STAGE(decoder, DECODER_DOC);
