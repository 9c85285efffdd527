/* SPDX-License-Identifier: MIT
 * device.c - the facts of a device. Every other file asks for them by name. */
#include "device.h"

#include "../kernels.h"

nnc_device nnc_device_of(const sp_cuda *ext) {
  nnc_device device = {0};
  if (!ext) return device;
  device.capability = ext->capability;
  device.multiprocessors = ext->multiprocessors;
  device.shared_bytes = ext->shared_bytes;
  if (ext->capability >= 80) device.has |= NNC_HAS_TF32 | NNC_HAS_BF16;
  if (ext->capability == 90) device.has |= NNC_HAS_WARP_GROUPS; /* 10.0 has other instructions instead */
  return device;
}

void nnc_device_code(nnc_device *device) {
  if (device->has & NNC_HAS_WARP_GROUPS && !nnk_has_warp_groups()) device->has &= ~(unsigned)NNC_HAS_WARP_GROUPS;
}

int nnc_device_rounds(const nnc_device *device, int precision) {
  if (precision == SP_PRECISION_TF32 && !(device->has & NNC_HAS_TF32)) return SP_PRECISION_FP32;
  if (precision == SP_PRECISION_BF16 && !(device->has & NNC_HAS_BF16)) return SP_PRECISION_FP32;
  return precision;
}
