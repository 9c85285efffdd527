/* SPDX-License-Identifier: MIT
 * depth_error_kernels.cu - exact sums of relative and logarithmic differences on CUDA. */
#include "depth_error_kernels.h"

#include "../../kits/limbs/limbs.cuh"

int depthk_sum(void *stream, const limb_job *job, const depth_params *params) {
  return limb_sum<depth_add, DEPTH_ROWS>(stream, *job, *params);
}
