/* SPDX-License-Identifier: MIT
 * add_kernels.cpp - add_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/add/add_kernels.cu"
