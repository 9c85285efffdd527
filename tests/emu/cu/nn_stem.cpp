/* SPDX-License-Identifier: MIT
 * nn_stem.cpp - cuda_stem.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_stem.cu"
