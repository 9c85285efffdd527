/* SPDX-License-Identifier: MIT
 * confusion_kernels.cpp - confusion_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/confusion/confusion_kernels.cu"
