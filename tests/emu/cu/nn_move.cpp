/* SPDX-License-Identifier: MIT
 * nn_move.cpp - cuda_move.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_move.cu"
