/* SPDX-License-Identifier: MIT
 * flip_kernels.cpp - flip_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/flip/flip_kernels.cu"
