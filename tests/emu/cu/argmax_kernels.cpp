/* SPDX-License-Identifier: MIT
 * argmax_kernels.cpp - argmax_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/argmax/argmax_kernels.cu"
