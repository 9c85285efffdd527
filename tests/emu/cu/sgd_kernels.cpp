/* SPDX-License-Identifier: MIT
 * sgd_kernels.cpp - sgd_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/sgd/sgd_kernels.cu"
