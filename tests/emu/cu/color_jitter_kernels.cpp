/* SPDX-License-Identifier: MIT
 * color_jitter_kernels.cpp - color_jitter_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/color_jitter/color_jitter_kernels.cu"
