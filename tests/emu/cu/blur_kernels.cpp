/* SPDX-License-Identifier: MIT
 * blur_kernels.cpp - blur_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/blur/blur_kernels.cu"
