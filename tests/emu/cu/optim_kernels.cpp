/* SPDX-License-Identifier: MIT
 * optim_kernels.cpp - optim_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/optim/optim_kernels.cu"
