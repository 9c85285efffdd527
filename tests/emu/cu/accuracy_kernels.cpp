/* SPDX-License-Identifier: MIT
 * accuracy_kernels.cpp - accuracy_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/accuracy/accuracy_kernels.cu"
