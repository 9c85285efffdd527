/* SPDX-License-Identifier: MIT
 * nn_fill.cpp - cuda_fill.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_fill.cu"
