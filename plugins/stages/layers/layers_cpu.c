/* SPDX-License-Identifier: MIT
 * layers_cpu.c - the stage `layers` on the CPU. */
#include "layers.h"

#include "../../kits/nn/cpu/cpu_stage.h"

NN_CPU_STAGE(layers, LAYERS_DOC);
