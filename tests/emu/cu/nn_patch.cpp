/* SPDX-License-Identifier: MIT
 * nn_patch.cpp - cuda_patch.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_patch.cu"
