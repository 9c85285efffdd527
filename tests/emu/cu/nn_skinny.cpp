/* SPDX-License-Identifier: MIT
 * nn_skinny.cpp - cuda_skinny.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_skinny.cu"
