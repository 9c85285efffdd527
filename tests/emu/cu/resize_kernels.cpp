/* SPDX-License-Identifier: MIT
 * resize_kernels.cpp - resize_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/resize/resize_kernels.cu"
