/* SPDX-License-Identifier: MIT
 * nn_pool.cpp - cuda_pool.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/nn/cuda_pool.cu"
