/* SPDX-License-Identifier: MIT
 * concat_kernels.cpp - concat_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/concat/concat_kernels.cu"
