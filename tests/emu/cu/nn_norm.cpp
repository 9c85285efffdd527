/* SPDX-License-Identifier: MIT
 * nn_norm.cpp - cuda_norm.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_norm.cu"
