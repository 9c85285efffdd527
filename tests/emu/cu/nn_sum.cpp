/* SPDX-License-Identifier: MIT
 * nn_sum.cpp - cuda_sum.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_sum.cu"
