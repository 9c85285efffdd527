/* SPDX-License-Identifier: MIT
 * sleep_kernels.cpp - sleep_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/sleep/sleep_kernels.cu"
