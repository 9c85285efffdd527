/* SPDX-License-Identifier: MIT
 * device.h - the facts of a device that ways of computing an op ask for. */
#ifndef NN_CUDA_DEVICE_H
#define NN_CUDA_DEVICE_H

#include <spcore/ext/cuda.h>
#include <spcore/ext/precision.h>

/* What a device can do that not all can. Kernels for warp groups are made for one architecture, not for later ones. */
enum { NNC_HAS_TF32 = 1, NNC_HAS_BF16 = 2, NNC_HAS_WARP_GROUPS = 4 };

typedef struct nnc_device {
  int capability, multiprocessors;
  size_t shared_bytes; /* most shared memory of a block, opted in */
  unsigned has;        /* of NNC_HAS_... */
} nnc_device;

/* device.c is the only file that knows what a compute capability means. */
nnc_device nnc_device_of(const sp_cuda *ext); /* NULL: of no device, which has nothing */
/* Takes away what the code of this module is not made for; asks the current device. */
void nnc_device_code(nnc_device *device);
/* What products round to there, SP_PRECISION_..., where they may round to `precision`. */
int nnc_device_rounds(const nnc_device *device, int precision);

#endif
