/* SPDX-License-Identifier: MIT
 * deviation_kernels.cu - exact sums of differences on CUDA. */
#include "deviation_kernels.h"

#include "../../kits/limbs/limbs.cuh"

struct dev_params {}; /* there are none */

int devk_sum(void *stream, const limb_job *job) { return limb_sum<dev_add, DEV_ROWS>(stream, *job, dev_params{}); }
