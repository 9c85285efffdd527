/* SPDX-License-Identifier: MIT
 * batch_rotate_kernels.cpp - batch_rotate_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/batch_rotate/batch_rotate_kernels.cu"
