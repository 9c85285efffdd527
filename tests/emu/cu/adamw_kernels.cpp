/* SPDX-License-Identifier: MIT
 * adamw_kernels.cpp - adamw_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/adamw/adamw_kernels.cu"
