/* SPDX-License-Identifier: MIT
 * to_float_kernels.cpp - to_float_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/to_float/to_float_kernels.cu"
