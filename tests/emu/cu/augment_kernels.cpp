/* SPDX-License-Identifier: MIT
 * augment_kernels.cpp - augment_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/augment/augment_kernels.cu"
