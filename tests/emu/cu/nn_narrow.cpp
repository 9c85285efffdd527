/* SPDX-License-Identifier: MIT
 * nn_narrow.cpp - cuda_narrow.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_narrow.cu"
