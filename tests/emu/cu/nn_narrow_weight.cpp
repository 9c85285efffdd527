/* SPDX-License-Identifier: MIT
 * nn_narrow_weight.cpp - cuda_narrow_weight.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_narrow_weight.cu"
