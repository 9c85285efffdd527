/* SPDX-License-Identifier: MIT
 * normalize_kernels.cpp - normalize_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/normalize/normalize_kernels.cu"
