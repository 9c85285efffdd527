/* SPDX-License-Identifier: MIT
 * encoder_cpu.c - the stage `encoder` on the CPU. */
#include "encoder.h"

#include "../../kits/nn/cpu/cpu_stage.h"

NN_CPU_STAGE(encoder, ENCODER_DOC);
