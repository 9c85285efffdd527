/* SPDX-License-Identifier: MIT
 * cross_entropy_kernels.cpp - cross_entropy_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/cross_entropy/cross_entropy_kernels.cu"
