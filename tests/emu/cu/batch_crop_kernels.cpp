/* SPDX-License-Identifier: MIT
 * batch_crop_kernels.cpp - batch_crop_kernels.cu for the emulator. */
#include "cuda_emu.h"
#include "../../../plugins/batch_crop/batch_crop_kernels.cu"
